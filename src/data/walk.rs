//! Optimizer steps one after another: windows of `accum` micro-batches. The last window of an epoch may be short; it
//! stands for itself, with its true number of tokens, and nothing of an epoch is carried into the next.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BatchPlan, Epoch};

/// How long to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Length {
    Epochs(u64),
    /// Optimizer steps, over as many epochs as they need.
    Steps(u64),
}

/// Where iteration stands: the window that comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    pub epoch: u64,
    /// Window of that epoch, from 0.
    pub window: u64,
}

/// The micro-batches of one optimizer step.
#[derive(Debug, Clone)]
pub struct Window {
    pub at: Cursor,
    /// Where to go on after this window.
    pub next: Cursor,
    /// The last window of its epoch.
    pub ends_epoch: bool,
    /// Positions that count in the loss; where it is zero there is no step to make.
    pub counted: usize,
    epoch: Arc<Epoch>,
    range: Range<usize>,
}

impl Window {
    /// Micro-batches.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The rows of each micro-batch.
    pub fn micros(&self) -> impl Iterator<Item = &[u32]> {
        self.range.clone().map(|i| self.epoch.micro(i))
    }
}

/// Iterator over windows; see [`BatchPlan::walk`].
#[derive(Debug)]
pub struct Walk<'a> {
    plan: &'a BatchPlan<'a>,
    length: Length,
    accum: usize,
    cursor: Cursor,
    /// Steps still to make; none: until the last epoch ends.
    left: Option<u64>,
    epoch: Option<(u64, Arc<Epoch>)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        plan: &'a BatchPlan<'a>,
        length: Length,
        accum: usize,
        cursor: Cursor,
        left: Option<u64>,
    ) -> Self {
        Walk { plan, length, accum: accum.max(1), cursor, left, epoch: None }
    }
}

impl Iterator for Walk<'_> {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        loop {
            match (self.length, self.left) {
                (Length::Epochs(epochs), _) if self.cursor.epoch >= epochs => return None,
                (_, Some(0)) => return None,
                _ => {}
            }
            let epoch = match &self.epoch {
                Some((e, epoch)) if *e == self.cursor.epoch => epoch.clone(),
                _ => self.epoch.insert((self.cursor.epoch, Arc::new(self.plan.epoch(self.cursor.epoch)))).1.clone(),
            };
            let count = epoch.len().div_ceil(self.accum) as u64;
            if self.cursor.window >= count {
                self.cursor = Cursor { epoch: self.cursor.epoch + 1, window: 0 };
                continue;
            }
            let at = self.cursor;
            let start = at.window as usize * self.accum;
            let range = start..start.saturating_add(self.accum).min(epoch.len());
            let counted = self.plan.extent(epoch.span(range.clone())).counted;
            let ends_epoch = at.window + 1 == count;
            let next = if ends_epoch {
                Cursor { epoch: at.epoch + 1, window: 0 }
            } else {
                Cursor { epoch: at.epoch, window: at.window + 1 }
            };
            self.cursor = next;
            if counted > 0 {
                self.left = self.left.map(|left| left - 1);
            }
            return Some(Window { at, next, ends_epoch, counted, epoch, range });
        }
    }
}
