//! A checked pipeline: steps in order, every argument resolved, every value owned.
//!
//! `check` makes a [`Plan`]; `stages` lower it. Nothing here has touched a weight.

mod args;
mod budget;

pub use args::{Arg, Args, CallArg, Unit, Val};
pub use budget::{Budget, Capability, Device, tell_apart};

use std::path::PathBuf;

use crate::text::{Diagnostic, SourceId, Span};

/// Names a value for the length of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// How a model's frozen weights are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// Full-width floating point: f32, bf16 or f16.
    Dense,
    /// 4-bit NormalFloat blocks.
    Nf4,
}

/// The type of a value, as far as the language tells values apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    Model { weights: Weights, lora: bool },
    Data,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Data => f.write_str("Data"),
            Type::Model { weights, lora } => {
                let weights = match weights {
                    Weights::Dense => "dense",
                    Weights::Nf4 => "nf4",
                };
                write!(f, "Model<{weights}{}>", if *lora { ", lora" } else { "" })
            }
        }
    }
}

/// A value some step makes.
#[derive(Debug, Clone)]
pub struct Value {
    pub kind: Type,
    /// The name given with `as`, which what a stage makes of it keeps.
    pub name: Option<String>,
    /// Index of the step that makes it.
    pub made_by: usize,
    /// Index of the step that takes it, if one does.
    pub taken_by: Option<usize>,
    /// Index of the last step that takes or borrows it (`made_by` when none does).
    pub last_use: usize,
}

/// One stage of the pipeline, ready to lower.
#[derive(Debug, Clone)]
pub struct Step {
    /// The catalogue's name: `train lora`.
    pub stage: String,
    /// The whole statement.
    pub span: Span,
    /// The stage's words only (`train lora`), for labels.
    pub name_span: Span,
    /// The line of the pipeline's own file that asks for it, from 1: of the outermost call where recipes made it.
    pub line: usize,
    /// The calls of recipes that it stands in, the pipeline's own first.
    pub calls: Vec<Span>,
    /// Every argument of the signature: given, or by default.
    pub args: Args,
    /// Inputs by their signature's name (`model`, `data`, `valid`); an absent optional input is not listed.
    pub inputs: Vec<(String, ValueId)>,
    /// What the step makes, in the signature's order.
    pub makes: Vec<ValueId>,
}

impl Step {
    /// A finding in a recipe is shown where the recipe is called too.
    pub fn called(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        if diagnostic.labels.iter().any(|label| label.span.source != self.span.source) {
            return diagnostic;
        }
        for call in self.calls.iter().rev() {
            diagnostic = diagnostic.label(*call, "called here");
        }
        diagnostic
    }

    pub fn input(&self, name: &str) -> Option<ValueId> {
        self.inputs.iter().find(|(n, _)| n == name).map(|(_, id)| *id)
    }
}

/// A value given beside the pipeline's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// As it was written: `lr=1e-4`, `train.batch=1`.
    pub what: String,
    /// Where: `on the command line`, `--set`.
    pub from: &'static str,
}

/// A checked pipeline.
#[derive(Debug, Clone)]
pub struct Plan {
    pub source: SourceId,
    pub steps: Vec<Step>,
    pub values: Vec<Value>,
    /// Targets to judge against; empty: nothing is judged.
    pub budgets: Vec<Budget>,
    /// Every `param` with the value it resolved to, in order, for the manifest.
    pub params: Vec<(String, Val)>,
    /// What was given beside the text, and counted.
    pub overrides: Vec<Override>,
    /// Files of recipes that were read, the standard library's among them.
    pub used: Vec<SourceId>,
    /// Files whose text stands in the plan (`@"prompt.txt"`).
    pub texts: Vec<PathBuf>,
}

impl Plan {
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }
}
