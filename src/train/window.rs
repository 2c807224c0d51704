//! The data of optimizer steps, as the trainer sees them.

use crate::model::{Extent, NOT_COUNTED, TokenBatch};
use crate::text::Result;

/// A micro-batch: rows laid end to end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Micro {
    pub ids: Vec<u32>,
    /// Where each row begins, and at the end the number of tokens.
    pub starts: Vec<u32>,
    /// The token each position has to foretell; `u32::MAX` where none is asked for.
    pub labels: Vec<u32>,
    /// Which rows of the data these are, to name them in messages.
    pub rows: Vec<u32>,
}

impl Micro {
    pub fn batch(&self) -> TokenBatch<'_> {
        TokenBatch { ids: &self.ids, starts: &self.starts, labels: &self.labels }
    }

    pub fn counted(&self) -> usize {
        self.labels.iter().filter(|label| **label != NOT_COUNTED).count()
    }
}

/// What one optimizer step learns from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    pub micros: Vec<Micro>,
    /// Passes over the data when this step is done: 1.5 is half way through the second.
    pub epoch: f64,
}

impl Window {
    pub fn tokens(&self) -> u64 {
        self.micros.iter().map(|micro| micro.ids.len() as u64).sum()
    }

    pub fn counted(&self) -> u64 {
        self.micros.iter().map(|micro| micro.counted() as u64).sum()
    }

    /// Rows of every micro-batch.
    pub fn rows(&self) -> Vec<u32> {
        self.micros.iter().flat_map(|micro| micro.rows.iter().copied()).collect()
    }
}

/// A run's data, any step of it at any time: what step `s` learns from depends on the settings and `s` alone.
pub trait Windows {
    /// Optimizer steps of the whole run.
    fn total_steps(&self) -> u64;
    fn window(&self, step: u64) -> Result<Window>;
    /// The largest micro-batch of the run in each respect.
    fn extent(&self) -> Extent;
}
