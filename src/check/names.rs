//! Names of the user: params, lets, and values named with `as`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::Checker;
use crate::plan::{CallArg, Val, ValueId};
use crate::syntax::{Item, LetLine, Word};
use crate::text::{Diagnostic, Span};

/// A resolved value, with what is needed to use it elsewhere than where it was written.
#[derive(Debug, Clone)]
pub(super) struct Datum {
    pub val: Val,
    /// What texts in it are relative to, should they turn out to be paths.
    pub folder: PathBuf,
    /// How it was written, where that is a plain number: `${lr}` gives `3e-4`, not `0.0003`.
    pub shown: Option<String>,
    /// In a recipe: the call's argument that it is.
    pub from: Option<Rc<CallArg>>,
}

impl Datum {
    pub fn plain(val: Val) -> Self {
        Datum { val, folder: PathBuf::new(), shown: None, from: None }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Named {
    /// The name where it is declared.
    pub span: Span,
    pub used: bool,
    pub what: What,
    /// A recipe's parameter: it goes on as what stages make of it.
    pub follows: bool,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Known(Datum),
    /// Its declaration has an error, which is reported.
    Unknown,
    /// A model or data.
    Owned(ValueId),
    /// A recipe's parameter while no call gives it a value.
    Open,
    /// An input of a recipe that the call leaves out.
    Absent,
}

impl Named {
    pub fn unknown(span: Span) -> Self {
        Named { span, used: false, what: What::Unknown, follows: false }
    }
}

/// Every name that a file or a recipe's body declares, to tell a name that comes later from one that does not exist.
pub(super) fn below(items: &[Item]) -> HashMap<&str, Span> {
    fn name(item: &Item) -> Option<&Word> {
        match item {
            Item::Param(line) => Some(&line.name),
            Item::Let(line) => Some(&line.name),
            Item::Stage(line) => line.alias.as_ref(),
            _ => None,
        }
    }
    items.iter().filter_map(name).map(|word| (&*word.text, word.span)).collect()
}

/// A name that stands above its declaration, or in it.
pub(super) fn later(word: &str, used: Span, declared: Span) -> Diagnostic {
    let inside = used.source == declared.source && used.start > declared.start;
    if inside {
        return Diagnostic::error("name.later", format!("`{word}` is declared by itself"))
            .label(used, "has no value yet")
            .label(declared, "declared here")
            .help("write the value itself");
    }
    Diagnostic::error("name.later", format!("`{word}` is declared further down"))
        .label(used, "used before it is declared")
        .label(declared, "declared here")
        .help("move the declaration above this line")
}

impl Checker<'_> {
    /// Declares a param or let. A name is used once in a file, whatever it names.
    pub fn declare(&mut self, name: &Word, datum: Option<Datum>) {
        if !self.free(name) {
            return;
        }
        let what = datum.map_or(What::Unknown, What::Known);
        self.names.insert(name.text.clone(), Named { span: name.span, used: false, what, follows: false });
    }

    /// Reports a name that is taken or not to be had.
    pub fn free(&mut self, name: &Word) -> bool {
        if matches!(&*name.text, "true" | "false" | "none" | "as") {
            self.report(
                Diagnostic::error("name.reserved", format!("`{}` cannot be a name", name.text))
                    .label(name.span, "has a meaning of its own")
                    .help("choose another name"),
            );
            return false;
        }
        if let Some(old) = self.names.get(&name.text) {
            let old = old.span;
            self.report(
                Diagnostic::error("name.twice", format!("`{}` is declared twice", name.text))
                    .label(name.span, "the second time")
                    .label(old, "the first time")
                    .help("choose another name here"),
            );
            return false;
        }
        true
    }

    pub fn binding(&mut self, line: &LetLine) {
        let datum = self.eval(&line.value, None);
        self.declare(&line.name, datum);
    }

    /// Names nobody used; an unread file may have used them.
    pub fn unused(&mut self) {
        let mut idle: Vec<(&String, &Named)> =
            self.names.iter().filter(|(_, named)| !named.used && !matches!(named.what, What::Owned(_))).collect();
        // What a `use` brings in is a matter of its line.
        idle.retain(|(_, named)| named.span.source == self.source);
        idle.sort_by_key(|(_, named)| named.span.start);
        let found: Vec<_> = idle
            .into_iter()
            .map(|(name, named)| {
                Diagnostic::warning("name.unused", format!("`{name}` is never used"))
                    .label(named.span, "declared here")
                    .help("use it, or remove the line")
            })
            .collect();
        self.diagnostics.extend(found);
        self.idle_uses();
        self.idle_recipes();
        self.idle_values();
    }
}
