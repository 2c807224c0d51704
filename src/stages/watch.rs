//! What a body tells while it works: the run writes it down and shows it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::store::Identity;
use crate::text::{Fault, Result};

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
    /// No update was made: loss or gradient are not finite.
    pub skipped: bool,
}

/// Bytes of a run's records, `metrics.jsonl` and `timing.jsonl`: what was written down so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    pub metrics: u64,
    pub timing: u64,
}

impl Marks {
    pub fn within(self, other: Marks) -> bool {
        self.metrics <= other.metrics && self.timing <= other.timing
    }
}

/// A stage that is done.
#[derive(Debug)]
pub struct Done<'a> {
    pub index: usize,
    pub name: &'a str,
    /// Folders that it made.
    pub outputs: &'a [std::path::PathBuf],
    /// Bytes that it leaves on disk.
    pub bytes: u64,
}

/// Whether the run is asked to stop.
pub type Stop = fn() -> bool;

/// What a body returns when it was asked to stop and has.
pub fn stopped(where_: impl Into<String>) -> Fault {
    Fault::new(STOPPED, where_)
}

/// The code of [`stopped`].
pub const STOPPED: &str = "run.interrupted";

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
    /// The state of this step is the one that training ends with.
    fn best(&mut self, _step: u64, _loss: f64) {}
    /// No more progress of this piece of work.
    fn finish(&mut self) {}
    /// Something a person should know that is no error.
    fn note(&mut self, _text: &str) {}
    /// Tells, at any time and on any thread, whether the run is asked to stop. What is asked does so at the next place
    /// where nothing is lost by it.
    fn stop(&self) -> Stop {
        || false
    }
    /// Where the records of the run end now; what stands before that is safe on the disk.
    fn marks(&mut self) -> Result<Marks> {
        Ok(Marks::default())
    }
    /// Whether what comes was told before the run was interrupted, and is only done again.
    fn again(&mut self, _again: bool) {}
    /// A folder is about to take the name `path`: `identity` will tell whether what lies there came from this run.
    fn making(&mut self, _path: &Path, _identity: Option<Identity>) -> Result<()> {
        Ok(())
    }
    /// A stage is done, and all that it leaves is safe on the disk.
    fn done(&mut self, _done: &Done<'_>) -> Result<()> {
        Ok(())
    }
    /// A checkpoint was made after a step.
    fn checkpoint(&mut self, _step: u64, _path: &Path) {}
}

/// Hears nothing.
pub struct Silent;

impl Watch for Silent {}
