//! AST to plan: names, types, units, ownership.
//!
//! [`check_text`] is the whole way from a source to a [`Plan`]; [`check`] starts at the AST. Nothing is read but the
//! files that `@"file"` names.

mod arithmetic;
mod budget;
mod eval;
mod inputs;
mod misfit;
mod names;
mod owned;
mod params;
mod stage;
#[cfg(test)]
mod tests;
mod unknown;

use std::collections::HashMap;

pub use budget::budget;

use crate::catalog::Catalog;
use crate::plan::{Budget, Plan, Step, Val};
use crate::syntax::{self, EntrySort, Expr, ExprKind, File, Item};
use crate::text::{Diagnostic, SourceId, Sources, Span};

/// Parses and checks one source. Diagnostics come in the order of the text; the plan is none when one is an error.
/// `params` are `name=value` from the command line.
pub fn check_text(
    source: SourceId,
    sources: &mut Sources,
    catalog: &Catalog,
    params: &[(String, String)],
) -> (Option<Plan>, Vec<Diagnostic>) {
    let (file, mut diagnostics) = syntax::parse(sources, source);
    let (plan, more) = check(&file, sources, catalog, params);
    diagnostics.extend(more);
    // What stands in an argument with an error may well be the use that is missed.
    if diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.retain(|diagnostic| !matches!(diagnostic.code, "name.unused" | "value.unused"));
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| (label.span.source, label.span.start)));
    (plan.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)), diagnostics)
}

/// Checks a parsed file. The parser's own diagnostics are not repeated, and a statement it could not read makes the
/// plan none without another word.
pub fn check(
    file: &File,
    sources: &mut Sources,
    catalog: &Catalog,
    params: &[(String, String)],
) -> (Option<Plan>, Vec<Diagnostic>) {
    let given = params::Given::read(params, sources);
    let mut checker = Checker::new(sources, catalog, file, given);
    checker.editions(file);
    for item in &file.items {
        checker.item(item);
    }
    checker.finish(file)
}

struct Checker<'a> {
    sources: &'a Sources,
    catalog: &'a Catalog,
    diagnostics: Vec<Diagnostic>,
    /// Params, lets and named values, as far as they are declared above.
    names: HashMap<String, names::Named>,
    /// Everything the file declares somewhere.
    below: HashMap<&'a str, Span>,
    owned: owned::Values,
    steps: Vec<Step>,
    budgets: Vec<Budget>,
    params: Vec<(String, Val)>,
    given: params::Given,
    /// A statement could not be read: what it would have made or named is unknown, so that "there is none" is not
    /// said any more.
    unread: bool,
}

impl<'a> Checker<'a> {
    fn new(sources: &'a Sources, catalog: &'a Catalog, file: &'a File, given: params::Given) -> Self {
        Checker {
            sources,
            catalog,
            diagnostics: Vec::new(),
            names: HashMap::new(),
            below: names::below(file),
            owned: owned::Values::default(),
            steps: Vec::new(),
            budgets: Vec::new(),
            params: Vec::new(),
            given,
            unread: false,
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn item(&mut self, item: &'a Item) {
        match item {
            Item::Edition(_) => {}
            Item::Budget(line) => self.budget_line(line),
            Item::Param(line) => self.param(line),
            Item::Let(line) => self.binding(line),
            Item::Stage(line) => self.stage(line),
            Item::Decl(decl) => self.misplaced("stage", decl.span),
            Item::Entry(entry) => {
                let word = if entry.sort == EntrySort::Device { "device" } else { "shape" };
                self.misplaced(word, entry.span);
            }
            Item::Later(later) => {
                self.unread = true;
                self.report(
                    Diagnostic::error("not_yet", format!("`{}` is not yet in this version", later.keyword))
                        .label(later.span, "cannot be read yet")
                        .help("write the stages out in this file"),
                );
            }
            Item::Broken(broken) => self.broken(broken),
        }
    }

    fn misplaced(&mut self, word: &str, span: Span) {
        self.report(
            Diagnostic::error("syntax.statement", format!("`{word}` declarations belong to the catalogue"))
                .label(span, "is not for a pipeline"),
        );
    }

    /// `tunepipe 1`, first and once.
    fn editions(&mut self, file: &File) {
        let mut first = None;
        for (at, item) in file.items.iter().enumerate() {
            let Item::Edition(edition) = item else { continue };
            match edition.number {
                Expr { kind: ExprKind::Int(1) | ExprKind::Wrong, .. } => {}
                Expr { span, .. } => {
                    let text = self.sources.slice(span);
                    let message = format!("edition {text} of the language is not known here");
                    self.report(
                        Diagnostic::error("edition.unknown", message)
                            .label(span, "unknown")
                            .help("write `tunepipe 1`, or install a newer tunepipe"),
                    );
                }
            }
            match first {
                Some(first) => self.report(
                    Diagnostic::error("edition.twice", "the edition stands twice")
                        .label(edition.span, "again")
                        .label(first, "first here")
                        .help("remove this line"),
                ),
                None if at > 0 => self.report(
                    Diagnostic::error("edition.place", "the edition comes first")
                        .label(edition.span, "stands behind other statements")
                        .help("move it to the top of the file"),
                ),
                None => {}
            }
            first.get_or_insert(edition.span);
        }
        let broken = file.items.iter().any(|item| {
            matches!(item, Item::Broken(broken) if broken.words.first().is_some_and(|word| word.text == "tunepipe"))
        });
        if first.is_none() && !broken {
            self.report(
                Diagnostic::warning("edition.missing", "the file does not say which edition of the language it is in")
                    .label(Span::new(file.source, 0, 0), "expected here")
                    .help("write `tunepipe 1` on the first line"),
            );
        }
    }

    /// What an unreadable statement would have done, as far as its first words tell.
    fn broken(&mut self, broken: &syntax::Broken) {
        self.unread = true;
        let words: Vec<&str> = broken.words.iter().map(|word| &*word.text).collect();
        match (words.first(), broken.words.get(1)) {
            (Some(&("let" | "param")), Some(name)) => {
                self.names.insert(name.text.clone(), names::Named::unknown(name.span));
            }
            _ => {
                if let Some((_, decl)) = self.catalog.stage_at(&words) {
                    self.owned.guess(decl, broken.span);
                }
            }
        }
    }

    fn finish(mut self, file: &File) -> (Option<Plan>, Vec<Diagnostic>) {
        self.params_left();
        let read = file.items.iter().all(|item| !matches!(item, Item::Broken(_)));
        if !self.unread && !self.diagnostics.iter().any(Diagnostic::is_error) {
            self.unused();
        }
        if !read || self.diagnostics.iter().any(Diagnostic::is_error) {
            return (None, self.diagnostics);
        }
        let plan = Plan {
            source: file.source,
            steps: self.steps,
            values: self.owned.finish(),
            budgets: self.budgets,
            params: self.params,
        };
        (Some(plan), self.diagnostics)
    }
}
