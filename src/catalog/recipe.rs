//! Recipes as the catalogue and the checker know them: a signature like a stage's.

use super::{ArgDecl, InputDecl, Kind, Pattern, StageDecl};
use crate::plan::Val;
use crate::syntax::{Expr, ParamKind, RecipeLine, Word};
use crate::text::Diagnostic;

/// A recipe of the standard library.
#[derive(Debug, Clone)]
pub struct RecipeDecl {
    pub decl: StageDecl,
    /// The file it stands in: `stdlib/recipes/qlora.tp`.
    pub file: &'static str,
    /// The file's text: a pipeline that calls the recipe reads it among its own sources.
    pub text: &'static str,
}

/// Makes a parameter's default: of a kind, what stands behind `=`, and the parameter's name.
pub type Default<'f> = dyn FnMut(&Kind, Option<&Expr>, &Word) -> Option<Val> + 'f;

/// What a call of a recipe is held to. `default` makes the value of what stands behind `=` (nothing stands there: of a
/// flag that is off, or none), held to the kind; a recipe's makes are what its body leaves, and not known here.
pub fn signature(line: &RecipeLine, default: &mut Default<'_>) -> (StageDecl, Vec<Diagnostic>) {
    let mut decl = StageDecl {
        name: line.name.text.clone(),
        doc: line.doc.clone().unwrap_or_default(),
        inputs: Vec::new(),
        makes: Vec::new(),
        args: Vec::new(),
        examples: line.examples.clone(),
    };
    let mut diagnostics = Vec::new();
    for param in &line.params {
        let name = param.name.text.clone();
        let doc = param.doc.clone().unwrap_or_default();
        if decl.arg(&name).is_some() || decl.input(&name).is_some() {
            diagnostics.push(
                Diagnostic::error("name.twice", format!("`{name}` is declared twice"))
                    .label(param.name.span, "the second time")
                    .help("choose another name here"),
            );
            continue;
        }
        let kind = match &param.kind {
            ParamKind::Open => Ok(Kind(Vec::new())),
            ParamKind::Setting(kind) => Kind::read_param(kind),
            ParamKind::Owned(kind) => {
                match Pattern::read(kind) {
                    Ok(pattern) => {
                        // Whether it takes or borrows, its body decides.
                        let optional = param.default.is_some();
                        decl.inputs.push(InputDecl { name, takes: false, pattern, many: false, optional, doc });
                        diagnostics.extend(param.default.as_ref().and_then(only_none));
                    }
                    Err(diagnostic) => diagnostics.push(diagnostic),
                }
                continue;
            }
        };
        match kind {
            Ok(kind) => {
                let default = default(&kind, param.default.as_ref(), &param.name);
                decl.args.push(ArgDecl { name, positional: param.positional, kind, default, doc });
            }
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    (decl, diagnostics)
}

fn only_none(default: &Expr) -> Option<Diagnostic> {
    let none = matches!(&default.kind, crate::syntax::ExprKind::Word(word) if word == "none");
    (!none).then(|| {
        Diagnostic::error("recipe.default", "a model or data has no default but `none`")
            .label(default.span, "here")
            .help("write `= none` for one that may be left out, or nothing")
    })
}
