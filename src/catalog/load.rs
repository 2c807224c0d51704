//! The catalogue out of its files.

use std::path::Path;

use super::recipe::{RecipeDecl, signature};
use super::{ArgDecl, Catalog, DeviceDecl, InputDecl, Kind, Pattern, ShapeDecl, StageDecl};
use crate::plan::{Capability, Device, Unit, Val};
use crate::syntax::{self, Entry, EntrySort, Expr, ExprKind, Item, Member, Part, Piece, RecipeLine};
use crate::text::{Diagnostic, Sources};

/// Shapes stand before stages: a stage's default may name one.
const FILES: [(&str, &str); 3] = [
    ("stdlib/devices.tp", include_str!("../../stdlib/devices.tp")),
    ("stdlib/shapes.tp", include_str!("../../stdlib/shapes.tp")),
    ("stdlib/stages.tp", include_str!("../../stdlib/stages.tp")),
];

/// Recipes in the language itself, one a file.
const RECIPES: [(&str, &str); 4] = [
    ("stdlib/recipes/qlora.tp", include_str!("../../stdlib/recipes/qlora.tp")),
    ("stdlib/recipes/lora.tp", include_str!("../../stdlib/recipes/lora.tp")),
    ("stdlib/recipes/full.tp", include_str!("../../stdlib/recipes/full.tp")),
    ("stdlib/recipes/continue_pretraining.tp", include_str!("../../stdlib/recipes/continue_pretraining.tp")),
];

/// The embedded catalogue, and what is wrong with it: nothing, as a test sees to.
pub(super) fn standard() -> (Catalog, Vec<Diagnostic>, Sources) {
    let files: Vec<(&'static str, &'static str)> = FILES.into_iter().chain(RECIPES).collect();
    read(&files)
}

/// Reads declarations out of named texts.
pub(super) fn read(files: &[(&'static str, &'static str)]) -> (Catalog, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::default();
    let mut loader = Loader { catalog: Catalog::default(), diagnostics: Vec::new(), sources: Sources::default() };
    for (name, text) in files {
        let id = sources.add(*name, Path::new(""), *text);
        let (file, diagnostics) = syntax::parse(&sources, id);
        loader.diagnostics.extend(diagnostics);
        loader.sources = sources.clone();
        for item in &file.items {
            match item {
                Item::Decl(decl) => loader.stage(decl),
                Item::Entry(entry) if entry.sort == EntrySort::Device => loader.device(entry),
                Item::Entry(entry) => loader.shape(entry),
                Item::Recipe(line) => loader.recipe(name, text, line),
                Item::Edition(_) | Item::Broken(_) => {}
                Item::Budget(syntax::BudgetLine { span, .. })
                | Item::Param(syntax::ParamLine { span, .. })
                | Item::Let(syntax::LetLine { span, .. })
                | Item::Stage(syntax::StageLine { span, .. })
                | Item::Use(syntax::UseLine { span, .. }) => {
                    let what = "the catalogue holds `stage`, `device`, `shape` and `recipe` declarations";
                    loader.diagnostics.push(Diagnostic::error("catalog.statement", what).label(*span, "is none"));
                }
            }
        }
    }
    (loader.catalog, loader.diagnostics, sources)
}

struct Loader {
    catalog: Catalog,
    diagnostics: Vec<Diagnostic>,
    sources: Sources,
}

impl Loader {
    fn kept<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|diagnostic| self.diagnostics.push(diagnostic)).ok()
    }

    fn stage(&mut self, decl: &syntax::StageDecl) {
        let name = decl.words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ");
        let mut stage = StageDecl {
            name: name.clone(),
            doc: decl.doc.clone().unwrap_or_default(),
            inputs: Vec::new(),
            makes: Vec::new(),
            args: Vec::new(),
            examples: Vec::new(),
        };
        for member in &decl.members {
            match member {
                Member::Input { takes, name, kind, many, optional, doc } => {
                    if let Some(pattern) = self.kept(Pattern::read(kind)) {
                        let (name, doc) = (name.text.clone(), doc.clone().unwrap_or_default());
                        stage.inputs.push(InputDecl {
                            name,
                            takes: *takes,
                            pattern,
                            many: *many,
                            optional: *optional,
                            doc,
                        });
                    }
                }
                Member::Make { kind } => stage.makes.extend(self.kept(Pattern::read(kind))),
                Member::Arg { positional, name, kind, default, doc } => {
                    if stage.arg(&name.text).is_some() || stage.input(&name.text).is_some() {
                        let twice = Diagnostic::error("name.twice", format!("`{}` is declared twice", name.text));
                        self.diagnostics.push(twice.label(name.span, "the second time"));
                    }
                    let Some(kind) = self.kept(Kind::read(kind)) else { continue };
                    let default = self.default(&kind, default.as_ref());
                    let (name, doc) = (name.text.clone(), doc.clone().unwrap_or_default());
                    stage.args.push(ArgDecl { name, positional: *positional, kind, default, doc });
                }
                Member::Example { text } => stage.examples.push(text.clone()),
            }
        }
        self.catalog.longest = self.catalog.longest.max(decl.words.len());
        if self.catalog.by_name.insert(name, self.catalog.stages.len()).is_some() {
            self.diagnostics.push(
                Diagnostic::error("name.twice", format!("the stage `{}` is declared twice", stage.name))
                    .label(decl.span, "the second time"),
            );
        }
        self.catalog.stages.push(stage);
    }

    fn recipe(&mut self, file: &'static str, text: &'static str, line: &RecipeLine) {
        let (decl, diagnostics) = signature(line, &mut |kind, expr, _| self.default(kind, expr));
        self.diagnostics.extend(diagnostics);
        self.catalog.recipes.push(RecipeDecl { decl, file, text });
    }

    fn default(&mut self, kind: &Kind, written: Option<&Expr>) -> Option<Val> {
        let Some(expr) = written else { return kind.is_flag().then_some(Val::Bool(false)) };
        let val = literal(expr);
        if val == Val::None {
            return Some(Val::None);
        }
        match self.catalog.fit(kind, &val, Path::new("")) {
            Ok(val) => Some(val),
            Err(_) => {
                let wanted = format!("the default is not {}", kind.words());
                self.diagnostics.push(Diagnostic::error("type.mismatch", wanted).label(expr.span, "here"));
                Some(val)
            }
        }
    }

    fn device(&mut self, entry: &Entry) {
        let name = entry.name.text.clone();
        let mut device =
            Device { name: Some(name.clone()), gpu: None, ram: None, disk: None, cuda: None, threads: None };
        for part in &entry.parts {
            let known = match part {
                Part::Argument { name, value } => match (&*name.text, &value.kind) {
                    ("gpu", ExprKind::Bytes(n)) => device.gpu.replace(*n).is_none(),
                    ("ram", ExprKind::Bytes(n)) => device.ram.replace(*n).is_none(),
                    ("disk", ExprKind::Bytes(n)) => device.disk.replace(*n).is_none(),
                    ("threads", ExprKind::Int(n)) => match usize::try_from(*n) {
                        Ok(n) if n > 0 => device.threads.replace(n).is_none(),
                        _ => false,
                    },
                    ("cuda", _) => match capability(self.sources.slice(value.span)) {
                        Some(cuda) => device.cuda.replace(cuda).is_none(),
                        None => false,
                    },
                    _ => false,
                },
                Part::Value(_) => false,
            };
            if !known {
                let wanted = "a device has `gpu=`, `ram=` and `disk=` sizes, a `cuda=` version and a number of `threads=`, each once";
                self.diagnostics.push(Diagnostic::error("catalog.device", wanted).label(part.span(), "is none"));
            }
        }
        if device.gpu.is_some() && device.threads.is_some() {
            let wanted = "`threads=` belongs to a device without a GPU";
            self.diagnostics.push(Diagnostic::error("catalog.device", wanted).label(entry.span, "has both"));
        }
        if self.catalog.device(&name).is_some() {
            self.diagnostics.push(Diagnostic::error("name.twice", "a device twice").label(entry.span, "again"));
        }
        self.catalog.devices.push(DeviceDecl { name, device, doc: entry.doc.clone().unwrap_or_default() });
    }

    fn shape(&mut self, entry: &Entry) {
        let name = entry.name.text.clone();
        let mut keys: Vec<(String, Val)> = Vec::new();
        for part in &entry.parts {
            let (key, val) = match part {
                Part::Argument { name, value } => (name.text.clone(), literal(value)),
                Part::Value(Expr { kind: ExprKind::Word(word), .. }) => (word.clone(), Val::Bool(true)),
                Part::Value(_) => {
                    let wanted = "a shape has `key=value` and flags";
                    self.diagnostics.push(Diagnostic::error("catalog.shape", wanted).label(part.span(), "is none"));
                    continue;
                }
            };
            if keys.iter().any(|(have, _)| *have == key) {
                self.diagnostics.push(Diagnostic::error("arg.twice", "a key twice").label(part.span(), "again"));
            }
            keys.push((key, val));
        }
        if self.catalog.shape(&name).is_some() {
            self.diagnostics.push(Diagnostic::error("name.twice", "a shape twice").label(entry.span, "again"));
        }
        self.catalog.shapes.push(ShapeDecl { name, keys, doc: entry.doc.clone().unwrap_or_default() });
    }
}

/// A value that stands for itself: names and arithmetic have no place in a declaration.
fn literal(expr: &Expr) -> Val {
    match &expr.kind {
        ExprKind::Word(word) => match &**word {
            "none" => Val::None,
            "true" => Val::Bool(true),
            "false" => Val::Bool(false),
            _ => Val::Symbol(word.clone()),
        },
        ExprKind::Int(n) => Val::Int(*n),
        ExprKind::Float(x) => Val::Float(*x),
        ExprKind::Bytes(n) => Val::Bytes(*n),
        ExprKind::Quantity(x, unit) => Val::Quantity(*x, (*unit).into()),
        ExprKind::Text(pieces) => {
            Val::Str(pieces.iter().map(|piece| if let Piece::Plain(text) = piece { &**text } else { "" }).collect())
        }
        ExprKind::List(items) => Val::List(items.iter().map(literal).collect()),
        ExprKind::FileText(_) | ExprKind::Binary { .. } | ExprKind::Wrong => Val::None,
    }
}

impl From<syntax::Unit> for Unit {
    fn from(unit: syntax::Unit) -> Unit {
        match unit {
            syntax::Unit::Percent => Unit::Percent,
            syntax::Unit::Steps => Unit::Steps,
            syntax::Unit::Epochs => Unit::Epochs,
            syntax::Unit::Rows => Unit::Rows,
        }
    }
}

/// `7.5` is major 7, minor 5; `12.0` is (12, 0), which a float could not tell from 12.
fn capability(text: &str) -> Option<Capability> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some(Capability(major.parse().ok()?, minor.parse().ok()?))
}
