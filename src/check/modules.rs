//! `use`: what another file declares, in this file's reach.

use std::collections::HashMap;
use std::rc::Rc;

use super::names::{Named, What, below};
use super::recipe::Recipe;
use super::{Checker, Scope};
use crate::syntax::{Item, UseLine, Word};
use crate::text::{Diagnostic, Span};

/// What a used file declares.
#[derive(Default)]
pub(super) struct Exports<'a> {
    lets: Vec<(String, Named)>,
    recipes: Vec<(String, Rc<Recipe<'a>>)>,
}

/// A `use` line, to tell one that nothing comes of.
pub(super) struct Used {
    /// The file it stands in, the file it brings in, and the name in front.
    of: (usize, usize, String),
    span: Span,
    shown: String,
    lets: Vec<String>,
    pub called: bool,
}

impl<'a> Checker<'a> {
    pub fn used(&mut self, line: &'a UseLine) {
        let Some(module) = self.library.by_use.get(&(line.span.source, line.span.start)).copied() else {
            // It could not be read: what it would have brought in is unknown.
            self.unread = true;
            let prefix = line.alias.as_ref().map_or_else(String::new, |alias| format!("{}.", alias.text));
            self.scopes[self.scope].lost.push(prefix);
            return;
        };
        let exports = self.module(module);
        let prefix = line.alias.as_ref().map_or_else(String::new, |alias| format!("{}.", alias.text));
        let at = self.uses.len();
        if let Some(first) = self.uses.iter().find(|used| used.of == (self.scope, module, prefix.clone())) {
            let first = first.span;
            return self.report(
                Diagnostic::error("use.twice", format!("`{}` is used twice", line.path))
                    .label(line.span, "the second time")
                    .label(first, "the first time")
                    .help("remove one of them"),
            );
        }
        let mut lets = Vec::new();
        let before = self.diagnostics.len();
        for (name, named) in &exports.lets {
            let word = Word { text: format!("{prefix}{name}"), span: line.span };
            if self.free(&word) {
                self.names.insert(word.text.clone(), Named { span: named.span, used: false, ..named.clone() });
                lets.push(word.text);
            }
        }
        for (name, recipe) in &exports.recipes {
            let word = Word { text: format!("{prefix}{name}"), span: line.span };
            self.declare_recipe(&word, recipe.clone(), Some(at));
        }
        // Names that clash are one mistake: the file has no name of its own.
        if self.diagnostics.len() > before {
            self.diagnostics.truncate(before + 1);
            if let Some(clash) = self.diagnostics.last_mut() {
                clash.help = Some("give the file's names a name in front: `use … as team`".into());
            }
        }
        let whole = self.library.modules[module].file.items.iter().all(|item| !matches!(item, Item::Broken(_)));
        self.unread |= !whole;
        let of = (self.scope, module, prefix);
        self.uses.push(Used { of, span: line.span, shown: line.path.clone(), lets, called: !self.at_top() });
    }

    /// Whether a name may be one of a used file that could not be read, which is reported there; `near`: the name that it
    /// is a slip of, if it is one.
    pub fn lost(&mut self, name: &str, near: Option<&str>) -> bool {
        let lost = &self.scopes[self.scope].lost;
        let may = lost.iter().any(|prefix| if prefix.is_empty() { near.is_none() } else { name.starts_with(prefix) });
        self.unread |= may;
        may
    }

    /// Whether statements of the pipeline's own file are being checked.
    fn at_top(&self) -> bool {
        self.scope == 0
    }

    /// Checks a used file, once.
    pub fn module(&mut self, at: usize) -> Rc<Exports<'a>> {
        if let Some(known) = self.modules.get(at).and_then(Clone::clone) {
            return known;
        }
        let library = self.library;
        let module = &library.modules[at];
        let items = &module.file.items;
        let before = self.diagnostics.len();
        let names = std::mem::take(&mut self.names);
        let below = std::mem::replace(&mut self.below, below(items));
        let scope = std::mem::replace(&mut self.scope, self.scopes.len());
        let order = std::mem::replace(&mut self.order, usize::MAX);
        self.scopes.push(Scope::of(items));
        self.editions(&module.file);
        for item in items {
            match item {
                Item::Edition(_) | Item::Broken(_) | Item::Let(_) | Item::Recipe(_) | Item::Use(_) => self.item(item),
                Item::Budget(_) | Item::Param(_) | Item::Stage(_) | Item::Decl(_) | Item::Entry(_) => {
                    let (word, span) = statement(item);
                    self.unread = true;
                    self.report(
                        Diagnostic::error("use.statement", format!("a used file has no {word}"))
                            .label(span, "not in a file that is used")
                            .help("a used file holds recipes and `let`; move this to the pipeline, or into a recipe"),
                    );
                }
            }
        }
        let mut exports = Exports::default();
        let own = std::mem::replace(&mut self.names, names);
        let is_let = |item: &Item| if let Item::Let(line) = item { Some(line.name.text.clone()) } else { None };
        // What a used file uses itself is not handed on.
        for name in items.iter().filter_map(is_let) {
            if let Some(named) = own.get(&name).filter(|named| !matches!(named.what, What::Owned(_))) {
                exports.lets.push((name, named.clone()));
            }
        }
        for item in items {
            let Item::Recipe(line) = item else { continue };
            let found = self.scopes[self.scope].recipes.get(&line.name.text);
            if let Some(found) = found.filter(|found| std::ptr::eq(found.recipe.line, line)) {
                exports.recipes.push((line.name.text.clone(), found.recipe.clone()));
            }
        }
        self.below = below;
        self.scope = scope;
        self.order = order;
        for diagnostic in self.diagnostics.iter_mut().skip(before) {
            let inside = diagnostic.labels.first().is_some_and(|label| label.span.source == module.file.source);
            if let (true, Some(at)) = (inside, module.used_at) {
                diagnostic.labels.push(crate::text::Label { span: at, text: "used here".into() });
            }
        }
        let exports = Rc::new(exports);
        if self.modules.len() <= at {
            self.modules.resize_with(at + 1, || None);
        }
        self.modules[at] = Some(exports.clone());
        exports
    }

    /// A recipe of the standard library.
    pub fn standard_recipe(&mut self, name: &str) -> Option<Rc<Recipe<'a>>> {
        let module = *self.library.standard.get(name)?;
        let exports = self.module(module);
        exports.recipes.iter().find(|(own, _)| own == name).map(|(_, recipe)| recipe.clone())
    }

    /// `use` lines that nothing comes of.
    pub fn idle_uses(&mut self) {
        let idle: HashMap<&str, bool> = self.names.iter().map(|(name, named)| (&**name, named.used)).collect();
        let found: Vec<Diagnostic> = self
            .uses
            .iter()
            .filter(|used| !used.called && !used.lets.iter().any(|name| idle.get(&**name) == Some(&true)))
            .map(|used| {
                Diagnostic::warning("name.unused", format!("nothing of `{}` is used", used.shown))
                    .label(used.span, "used here")
                    .help("call a recipe of it, or remove the line")
            })
            .collect();
        self.diagnostics.extend(found);
    }
}

fn statement(item: &Item) -> (&'static str, Span) {
    match item {
        Item::Budget(line) => ("budget", line.span),
        Item::Param(line) => ("param", line.span),
        Item::Stage(line) => ("stage outside a recipe", line.span),
        Item::Decl(decl) => ("`stage` declaration", decl.span),
        Item::Entry(entry) => ("device or shape", entry.span),
        Item::Edition(line) => ("edition", line.span),
        Item::Let(line) => ("let", line.span),
        Item::Use(line) => ("use", line.span),
        Item::Recipe(line) => ("recipe", line.span),
        Item::Broken(broken) => ("such statement", broken.span),
    }
}
