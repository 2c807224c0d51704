//! AST to plan: names, types, units, ownership.
//!
//! [`check_text`] is the whole way from a source to a [`Plan`]; [`check`] starts at the AST. Nothing is read but the
//! files that `use` and `@"file"` name.

mod arithmetic;
mod budget;
mod elsewhere;
mod eval;
mod foreign;
mod given;
mod inputs;
mod library;
mod misfit;
mod modules;
mod names;
mod owned;
mod params;
mod recipe;
mod sets;
mod stage;
#[cfg(test)]
mod tests;
mod unknown;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

pub use budget::budget;
pub use given::{Asked, VARIABLE};
pub use params::sample;
pub use recipe::Declared;

use crate::catalog::Catalog;
use crate::plan::{Budget, Override, Plan, Step, Val, tell_apart};
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
    check_asked(source, sources, catalog, &Asked { params: params.to_vec(), ..Asked::default() })
}

/// The same with all that can be given beside the text.
pub fn check_asked(
    source: SourceId,
    sources: &mut Sources,
    catalog: &Catalog,
    asked: &Asked,
) -> (Option<Plan>, Vec<Diagnostic>) {
    let (file, mut diagnostics) = syntax::parse(sources, source);
    let (plan, more) = check(&file, sources, catalog, asked);
    diagnostics.extend(more);
    // What stands in an argument with an error may well be the use that is missed.
    if diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.retain(|diagnostic| !matches!(diagnostic.code, "name.unused" | "value.unused"));
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| (label.span.source, label.span.start)));
    (plan.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)), diagnostics)
}

/// Checks a parsed file. The parser's own diagnostics are not repeated, and what it could not read makes the plan none
/// without another word; mistakes that it reported and mended are its caller's to heed, as [`check_text`] does.
pub fn check(file: &File, sources: &mut Sources, catalog: &Catalog, asked: &Asked) -> (Option<Plan>, Vec<Diagnostic>) {
    let given = given::Given::read(asked, sources);
    let library = library::read(file, sources, catalog);
    let mut checker = Checker::new(sources, catalog, file, given, &library);
    checker.diagnostics.append(&mut checker.given.diagnostics);
    checker.diagnostics.extend(library.diagnostics.iter().cloned());
    checker.editions(file);
    for item in &file.items {
        checker.item(item);
    }
    checker.finish(file)
}

/// The recipes that a file declares or uses, with what is wrong with it. What its params are is no matter.
pub fn recipes(source: SourceId, sources: &mut Sources, catalog: &Catalog) -> (Vec<Declared>, Vec<Diagnostic>) {
    let (file, mut diagnostics) = syntax::parse(sources, source);
    let given = given::Given::read(&Asked::default(), sources);
    let library = library::read(&file, sources, catalog);
    let mut checker = Checker::new(sources, catalog, &file, given, &library);
    for item in &file.items {
        match item {
            Item::Let(_) | Item::Param(_) | Item::Recipe(_) | Item::Use(_) | Item::Broken(_) => checker.item(item),
            _ => {}
        }
    }
    let found = checker.reachable();
    diagnostics.append(&mut checker.diagnostics);
    diagnostics.extend(library.diagnostics.iter().cloned());
    diagnostics.retain(|one| one.is_error() && one.code != "param.missing");
    (found, diagnostics)
}

/// The lines of a file that recipes need: its lets, its `use` lines and the recipes.
pub fn declarations(source: SourceId, sources: &Sources) -> String {
    let (file, _) = syntax::parse(sources, source);
    let mut text = String::new();
    for item in &file.items {
        let span = match item {
            Item::Let(line) => line.span,
            Item::Use(line) => line.span,
            Item::Recipe(line) => line.span,
            _ => continue,
        };
        text.push_str(sources.slice(span).trim_end());
        text.push('\n');
    }
    text
}

struct Checker<'a> {
    sources: &'a Sources,
    catalog: &'a Catalog,
    /// The pipeline's own text.
    source: SourceId,
    diagnostics: Vec<Diagnostic>,
    /// Params, lets and named values, as far as they are declared above.
    names: HashMap<String, names::Named>,
    /// Statements of the file that make a model or data out of nothing.
    makers: Vec<inputs::Maker>,
    /// Everything the file declares somewhere.
    below: HashMap<&'a str, Span>,
    owned: owned::Values,
    steps: Vec<Step>,
    budgets: Vec<Budget>,
    params: Vec<(String, Val)>,
    given: given::Given,
    overrides: Vec<Override>,
    /// Files of recipes, read beforehand, and what their checking came to.
    library: &'a library::Library,
    modules: Vec<Option<Rc<modules::Exports<'a>>>>,
    uses: Vec<modules::Used>,
    /// Recipes in reach of each file, the pipeline's own first; which file is being checked, and how many of its
    /// recipes stand above the body that is.
    scopes: Vec<Scope<'a>>,
    scope: usize,
    order: usize,
    /// Calls of recipes that are being looked at, and how many stages calls have come to so far.
    calls: Vec<Span>,
    opened: usize,
    too_large: bool,
    /// A recipe is being looked at where it is declared.
    trying: bool,
    /// Unknown names that were reported, and whether it was reported that there is no data and no model: said once.
    said: HashSet<String>,
    said_none: [bool; 2],
    /// Files whose text stands in the plan.
    texts: Vec<PathBuf>,
    /// A statement could not be read: what it would have made or named is unknown, so that "there is none" is not
    /// said any more.
    unread: bool,
}

/// The recipes of one file.
#[derive(Default)]
struct Scope<'a> {
    /// Those that are in reach so far.
    recipes: HashMap<String, recipe::Reach<'a>>,
    /// All that the file declares.
    declared: HashMap<&'a str, Span>,
    /// Those of them that cannot be read.
    unread: HashSet<String>,
    /// What names begin with that files would have brought in which could not be read; nothing, without an `as`.
    lost: Vec<String>,
    /// Names of the file and of its recipes, wherever they stand.
    hidden: HashMap<&'a str, Vec<elsewhere::Hidden<'a>>>,
}

impl<'a> Scope<'a> {
    fn of(items: &'a [Item]) -> Self {
        let name = |item: &'a Item| {
            if let Item::Recipe(line) = item { Some((&*line.name.text, line.name.span)) } else { None }
        };
        Scope {
            declared: items.iter().filter_map(name).collect(),
            hidden: elsewhere::hidden(items),
            ..Scope::default()
        }
    }
}

impl<'a> Checker<'a> {
    fn new(
        sources: &'a Sources,
        catalog: &'a Catalog,
        file: &'a File,
        given: given::Given,
        library: &'a library::Library,
    ) -> Self {
        Checker {
            sources,
            catalog,
            source: file.source,
            diagnostics: Vec::new(),
            names: HashMap::new(),
            makers: inputs::makers(&file.items, catalog),
            below: names::below(&file.items),
            owned: owned::Values::default(),
            steps: Vec::new(),
            budgets: Vec::new(),
            params: Vec::new(),
            given,
            overrides: Vec::new(),
            library,
            modules: Vec::new(),
            uses: Vec::new(),
            scopes: vec![Scope::of(&file.items)],
            scope: 0,
            order: usize::MAX,
            calls: Vec::new(),
            opened: 0,
            too_large: false,
            trying: false,
            said: HashSet::new(),
            said_none: [false; 2],
            texts: Vec::new(),
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
            Item::Use(line) => self.used(line),
            Item::Recipe(line) => self.recipe(line),
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
            (Some(&"recipe"), Some(name)) => drop(self.scopes[self.scope].unread.insert(name.text.clone())),
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
        self.sets_left();
        let read = file.items.iter().all(|item| !matches!(item, Item::Broken(_)));
        if !self.unread && !self.diagnostics.iter().any(Diagnostic::is_error) {
            self.unused();
        }
        if !read || self.unread || self.diagnostics.iter().any(Diagnostic::is_error) {
            return (None, self.diagnostics);
        }
        let mut budgets = self.budgets;
        tell_apart(&mut budgets, |budget| self.sources.line_column(budget.span).0);
        let plan = Plan {
            source: file.source,
            steps: self.steps,
            values: self.owned.finish(),
            budgets,
            params: self.params,
            used: self.library.modules.iter().map(|module| module.file.source).collect(),
            texts: self.texts,
            overrides: self.overrides,
        };
        (Some(plan), self.diagnostics)
    }
}
