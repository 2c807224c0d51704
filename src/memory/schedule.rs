//! What a pipeline will hold, stage by stage, and the bodies that will hold it.

use super::{Holding, PerPlace};
use crate::text::{Result, Span};

/// A stretch of a stage in which the same things are held.
#[derive(Debug, Clone)]
pub struct Phase {
    /// `read`, `step`, `write`: one word where it can be.
    pub name: &'static str,
    /// What this phase takes for itself; values alive from earlier stages are added by the profile.
    pub holdings: Vec<Holding>,
    /// The peak of these holdings together where it is less than their sum, because one gives way to another
    /// (a tensor at a time is read, quantised and let go).
    pub peak: Option<PerPlace>,
    /// Set where the phase is over before any stage begins.
    pub early: Option<Early>,
}

impl Phase {
    pub fn new(name: &'static str, holdings: Vec<Holding>) -> Self {
        Phase { name, holdings, peak: None, early: None }
    }

    /// The most that its own holdings take together.
    pub fn own(&self) -> Result<PerPlace> {
        self.peak.map_or_else(|| PerPlace::sum(&self.holdings), Ok)
    }
}

/// What is known of a phase that has to be done for there to be a plan at all: rows are read and tokenised to know
/// their lengths. No value of an earlier stage is alive in it.
#[derive(Debug, Clone)]
pub struct Early {
    /// What was there when it began.
    pub before: Vec<Holding>,
    /// The most that was in use in it, as the machine counted.
    pub measured: PerPlace,
}

/// What stays alive after the stage that made it.
#[derive(Debug, Clone)]
pub struct Kept {
    pub holdings: Vec<Holding>,
    /// Index of the last stage in which it lives; `usize::MAX`: to the end (files on disk).
    pub until: usize,
}

/// One stage, lowered: what it holds in each phase, what it leaves behind, and the body that does it.
pub struct StagePlan<B> {
    /// The stage's name: `train lora`.
    pub name: String,
    pub span: Span,
    /// Line of the statement, from 1.
    pub line: usize,
    pub phases: Vec<Phase>,
    pub keeps: Vec<Kept>,
    pub body: B,
}

/// A whole pipeline for one target, in the order in which it will run.
pub struct Schedule<B> {
    /// The process itself: lives through every phase.
    pub floor: Vec<Holding>,
    /// What is there before the first stage and goes with the last that uses it.
    pub resident: Vec<Kept>,
    pub stages: Vec<StagePlan<B>>,
}
