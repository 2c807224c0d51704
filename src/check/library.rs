//! Files of recipes that a pipeline uses, read and parsed before anything is checked: the one place of this room that
//! reads them. What stands in them is looked at when their `use` line is reached.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::eval::read_text;
use crate::catalog::Catalog;
use crate::syntax::{self, Expr, ExprKind, File, Item, Part, UseLine};
use crate::text::{Diagnostic, SourceId, Sources, Span, joined};

/// Files that one pipeline may use, those they use included.
const MOST: usize = 256;

/// A file that is used.
pub(super) struct Module {
    pub file: File,
    /// Where it is first used; none: the standard library's.
    pub used_at: Option<Span>,
}

#[derive(Default)]
pub(super) struct Library {
    pub modules: Vec<Module>,
    /// Which module a `use` line brings in; missing where that could not be read, which is reported.
    pub by_use: HashMap<(SourceId, u32), usize>,
    /// Modules of the standard library by the recipe they hold.
    pub standard: HashMap<String, usize>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads everything that a file uses, and what that uses.
pub(super) fn read(file: &File, sources: &mut Sources, catalog: &Catalog) -> Library {
    let mut reader = Reader { sources, catalog, library: Library::default(), known: HashMap::new(), open: Vec::new() };
    reader.open.extend(identity(Path::new(&reader.sources.get(file.source).name)));
    reader.items(&file.items);
    let mut library = reader.library;
    // A mistake in a used file is also shown where the file comes in.
    let homes: HashMap<SourceId, Span> =
        library.modules.iter().filter_map(|module| Some((module.file.source, module.used_at?))).collect();
    for diagnostic in &mut library.diagnostics {
        let home = diagnostic.labels.first().and_then(|label| homes.get(&label.span.source)).copied();
        if let Some(at) = home {
            diagnostic.labels.push(crate::text::Label { span: at, text: "used here".into() });
        }
    }
    library
}

struct Reader<'s> {
    sources: &'s mut Sources,
    catalog: &'s Catalog,
    library: Library,
    /// Files read so far, by what tells one from another on disk.
    known: HashMap<PathBuf, usize>,
    /// Files whose `use` lines are being followed.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    fn items(&mut self, items: &[Item]) {
        let mut called = HashSet::new();
        for item in items {
            match item {
                Item::Use(line) => self.used(line),
                Item::Stage(_) => called.extend(first_word(item)),
                Item::Recipe(recipe) => called.extend(recipe.body.iter().filter_map(first_word)),
                _ => {}
            }
        }
        // Those of the standard library that may be meant, in an order that does not hang on hashing.
        let catalog = self.catalog;
        for recipe in &catalog.recipes {
            let name = &recipe.decl.name;
            if !called.contains(&**name) || self.library.standard.contains_key(name) {
                continue;
            }
            let id = self.sources.add(recipe.file, Path::new(""), recipe.text);
            let (file, diagnostics) = syntax::parse(self.sources, id);
            self.library.diagnostics.extend(diagnostics);
            self.library.standard.insert(name.clone(), self.library.modules.len());
            let items = file.items.clone();
            self.library.modules.push(Module { file, used_at: None });
            self.items(&items);
        }
    }

    fn used(&mut self, line: &UseLine) {
        let path = joined(&self.sources.get(line.span.source).folder, &line.path);
        let at = line.path_span;
        if let Some(recipe) = self
            .catalog
            .recipes
            .iter()
            .find(|recipe| line.path == recipe.file || (line.path == recipe.decl.name && !path.exists()))
        {
            self.report(
                Diagnostic::error("use.standard", format!("`{}` needs no `use`", recipe.decl.name))
                    .label(at, "belongs to the standard library")
                    .help("remove the line; its recipes are always there"),
            );
            return;
        }
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(fault) => return self.report(Diagnostic::from_fault(&fault, at, "used here")),
        };
        let id = identity(&path).unwrap_or_else(|| path.clone());
        if self.open.contains(&id) {
            let round: Vec<String> = self.open.iter().map(|path| shown(path)).collect();
            return self.report(
                Diagnostic::error("use.cycle", "files that use one another in a circle")
                    .label(at, "is being read already")
                    .note(format!("{} → {}", round.join(" → "), shown(&id)))
                    .help("move what both need into a third file"),
            );
        }
        let module = match self.known.get(&id) {
            Some(known) => *known,
            None if self.library.modules.len() >= MOST => {
                return self.report(
                    Diagnostic::error("use.many", format!("more than {MOST} files are used")).label(at, "one too many"),
                );
            }
            None => {
                let folder = path.parent().map(Path::to_owned).unwrap_or_default();
                let source = self.sources.add(path.display().to_string(), &folder, text);
                let (file, diagnostics) = syntax::parse(self.sources, source);
                self.library.diagnostics.extend(diagnostics);
                let items = file.items.clone();
                let at = self.library.modules.len();
                self.library.modules.push(Module { file, used_at: Some(line.span) });
                self.known.insert(id.clone(), at);
                self.open.push(id);
                self.items(&items);
                self.open.pop();
                at
            }
        };
        self.library.by_use.insert((line.span.source, line.span.start), module);
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.library.diagnostics.push(diagnostic);
    }
}

/// What tells one file from another, however its path is written.
fn identity(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

fn shown(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()))
}

fn first_word(item: &Item) -> Option<&str> {
    let Item::Stage(line) = item else { return None };
    match line.parts.first() {
        Some(Part::Value(Expr { kind: ExprKind::Word(word), .. })) => Some(word),
        _ => None,
    }
}
