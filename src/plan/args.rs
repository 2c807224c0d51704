//! Resolved arguments of one step.

use std::path::PathBuf;

use crate::text::Span;

/// What a quantity counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    Percent,
    Steps,
    Epochs,
    Rows,
}

/// A value of the language after names, units and arithmetic are resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Val {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A size in bytes.
    Bytes(u64),
    /// `3%` is `Quantity(3.0, Percent)`.
    Quantity(f64, Unit),
    Str(String),
    /// Absolute, or relative to the working directory; already joined to the folder of its literal.
    Path(PathBuf),
    Symbol(String),
    List(Vec<Val>),
}

/// One argument: its value, and where the user wrote it (none: the signature's default).
#[derive(Debug, Clone)]
pub struct Arg {
    pub name: String,
    pub val: Val,
    pub span: Option<Span>,
    /// In a recipe: the call's argument that its value comes from.
    pub from: Option<CallArg>,
}

/// An argument of a recipe's call in the pipeline's own file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallArg {
    /// What the call names it; none: a recipe in the recipe has it, which the pipeline does not reach.
    pub name: Option<String>,
    /// Where the call gives it; none: it goes by the recipe's default.
    pub span: Option<Span>,
    /// The whole call.
    pub call: Span,
}

/// All arguments of a step, in the signature's order. The checker has held every value to the signature's type, so
/// the readers below fall back to a neutral value instead of failing: a mismatch is a fault of `stdlib/`, which a
/// test holds to the stages.
#[derive(Debug, Clone, Default)]
pub struct Args(pub Vec<Arg>);

impl Args {
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.0.iter().find(|arg| arg.name == name)
    }

    pub fn val(&self, name: &str) -> &Val {
        self.get(name).map_or(&Val::None, |arg| &arg.val)
    }

    /// Where the user wrote the argument.
    pub fn span(&self, name: &str) -> Option<Span> {
        self.get(name).and_then(|arg| arg.span)
    }

    /// Whether the user wrote the argument, here or in the call of the recipe that hands it on. Written as `none` it
    /// is left out.
    pub fn given(&self, name: &str) -> bool {
        let written = |arg: &Arg| arg.from.as_ref().map_or(arg.span, |from| from.span).is_some();
        self.get(name).is_some_and(|arg| arg.val != Val::None && written(arg))
    }

    pub fn is_none(&self, name: &str) -> bool {
        *self.val(name) == Val::None
    }

    pub fn flag(&self, name: &str) -> bool {
        *self.val(name) == Val::Bool(true)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.val(name) {
            Val::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// An Int argument as a count; the signature's range keeps it non-negative.
    pub fn count(&self, name: &str) -> usize {
        self.int(name).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    }

    pub fn float(&self, name: &str) -> f64 {
        match self.val(name) {
            Val::Float(x) => *x,
            Val::Int(n) => *n as f64,
            _ => 0.0,
        }
    }

    /// A symbol's or a string's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.val(name) {
            Val::Symbol(s) | Val::Str(s) => Some(s),
            _ => None,
        }
    }

    /// One path, or every path of a list.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        match self.val(name) {
            Val::Path(p) => vec![p.clone()],
            Val::List(items) => {
                items.iter().filter_map(|item| if let Val::Path(p) = item { Some(p.clone()) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.paths(name).into_iter().next()
    }

    /// The texts of a list of symbols or strings; a single one serves as a list of one.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let text = |val: &Val| match val {
            Val::Symbol(s) | Val::Str(s) => Some(s.clone()),
            _ => None,
        };
        match self.val(name) {
            Val::List(items) => items.iter().filter_map(text).collect(),
            one => text(one).into_iter().collect(),
        }
    }
}
