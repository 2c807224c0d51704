//! What a body tells while it works: the run writes it down and shows it.

use std::path::Path;

/// One optimizer step, as it stands in `metrics.jsonl` and on the progress bar.
#[derive(Debug, Clone, Copy)]
pub struct StepSeen {
    /// From 1.
    pub step: u64,
    pub steps: u64,
    /// Passes over the data done after this step.
    pub epoch: f64,
    /// Mean over the window's counted tokens, nats.
    pub loss: f64,
    pub lr: f64,
    /// Before clipping.
    pub grad_norm: f64,
    /// Tokens that went through the model.
    pub tokens: u64,
    /// Tokens that counted in the loss.
    pub counted: u64,
    pub seconds: f64,
}

/// A score on rows that are not trained on.
#[derive(Debug, Clone, Copy)]
pub struct EvalSeen {
    /// Optimizer steps done when it was taken, inside training.
    pub step: Option<u64>,
    pub loss: f64,
    pub perplexity: f64,
    pub counted: u64,
}

/// What progress counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Bytes,
    /// Numbers of a tensor.
    Values,
    Rows,
    Tokens,
    Batches,
}

/// Receives what happens. Every method has a body that does nothing, so a test hears only what it asks for.
pub trait Watch {
    /// Part of a piece of work that may take long; `what` is a few words (`reading weights`).
    fn progress(&mut self, _what: &str, _done: u64, _total: u64, _count: Count) {}
    /// A stage begins.
    fn stage(&mut self, _name: &str, _line: usize) {}
    fn step(&mut self, _seen: &StepSeen) {}
    fn eval(&mut self, _stage: &str, _seen: &EvalSeen) {}
    /// A sampled answer.
    fn sample(&mut self, _prompt: &str, _answer: &str) {}
    fn saved(&mut self, _what: &str, _path: &Path, _bytes: u64) {}
    /// No more progress of this piece of work.
    fn finish(&mut self) {}
    /// Something a person should know that is no error.
    fn note(&mut self, _text: &str) {}
}

/// Hears nothing.
pub struct Silent;

impl Watch for Silent {}
