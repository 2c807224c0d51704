//! Which rows meet in which micro-batch, and the flat tensors of one.
//!
//! There is no padding: a micro-batch is a list of rows, its tokens one after another, and attention and positions
//! restart at each row. A *sequence* is one row, or with `packed` as many rows, in order, as fit into `max_len`; a
//! micro-batch is `batch` sequences; an optimizer step takes a *window* of `accum` micro-batches. The last micro-batch
//! and the last window of an epoch may be short: they stand for themselves, with their true number of tokens, and
//! nothing of an epoch is carried into the next.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::shuffle;
use super::{Sizes, TokenSet};
use crate::text::{Fault, Result};

/// The label of a position that does not count.
pub const IGNORED: u32 = u32::MAX;

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

/// Size of a micro-batch, known from lengths alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    pub tokens: usize,
    /// Positions that count in the loss.
    pub counted: usize,
    /// Tokens of the longest row.
    pub longest: usize,
    /// Rows.
    pub segments: usize,
}

/// Every micro-batch of every epoch, as a function of lengths and a seed.
#[derive(Debug, Clone)]
pub struct BatchPlan<'a> {
    sizes: &'a Sizes,
    rows: Vec<u32>,
    batch: usize,
    /// Tokens of a packed sequence; none: a sequence is one row.
    pack: Option<usize>,
    /// Seed of the orders; none: file order.
    seed: Option<u64>,
}

impl<'a> BatchPlan<'a> {
    /// A plan over `rows` of a set, `batch` sequences a micro-batch.
    ///
    /// # Errors
    /// `data.pack` where `packed` comes without `max_len` or with a row that does not fit; `data.batch` for a batch of
    /// zero; `data.no_rows` without rows.
    pub fn new(
        sizes: &'a Sizes,
        rows: &[u32],
        batch: usize,
        packed: bool,
        max_len: Option<usize>,
        shuffle: bool,
        seed: u64,
    ) -> Result<Self> {
        if batch == 0 {
            return Err(Fault::new("data.batch", "a batch of 0 sequences holds nothing").help("batch=1"));
        }
        if rows.is_empty() {
            return Err(Fault::new("data.no_rows", "there is no row to make a batch of"));
        }
        if rows.iter().any(|row| *row as usize >= sizes.rows()) {
            return Err(Fault::new("data.no_such_row", "a batch plan names a row that the data set does not have"));
        }
        let pack = match (packed, max_len) {
            (false, _) => None,
            (true, None) => {
                return Err(Fault::new("data.pack", "`packed` needs to know how long a sequence may be")
                    .help("add `max_len=`, for example `max_len=2048`"));
            }
            (true, Some(max)) => Some(max),
        };
        let plan = BatchPlan { sizes, rows: rows.to_vec(), batch, pack, seed: shuffle.then_some(seed) };
        let longest = rows.iter().map(|row| plan.len_of(*row)).max().unwrap_or(0);
        match pack {
            Some(max) if longest > max => {
                let fault =
                    Fault::new("data.pack", format!("a row of {longest} tokens does not fit into `max_len={max}`"));
                Err(fault.help("long=drop, long=truncate, or a larger max_len"))
            }
            _ => Ok(plan),
        }
    }

    fn len_of(&self, row: u32) -> usize {
        self.sizes.len.get(row as usize).copied().unwrap_or(0) as usize
    }

    /// Rows that an epoch goes through.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The micro-batches of epoch `e`, which follow from lengths, seed and `e` alone.
    pub fn epoch(&self, e: u64) -> Epoch {
        let mut order = self.rows.clone();
        if let Some(seed) = self.seed {
            shuffle(&mut order, seed, e);
        }
        let mut ends = Vec::new();
        let (mut sequences, mut filled) = (0, 0);
        for (at, row) in order.iter().enumerate() {
            let len = self.len_of(*row);
            let joins = self.pack.is_some_and(|max| sequences > 0 && filled + len <= max);
            if joins {
                filled += len;
                continue;
            }
            if sequences == self.batch {
                ends.push(at);
                sequences = 0;
            }
            sequences += 1;
            filled = len;
        }
        ends.push(order.len());
        Epoch { order, ends }
    }

    /// Size of a micro-batch of these rows.
    pub fn extent(&self, rows: &[u32]) -> Extent {
        rows.iter().fold(Extent::default(), |extent, row| {
            let len = self.len_of(*row);
            Extent {
                tokens: extent.tokens + len,
                counted: extent.counted + self.sizes.counted.get(*row as usize).copied().unwrap_or(0) as usize,
                longest: extent.longest.max(len),
                segments: extent.segments + 1,
            }
        })
    }

    /// Optimizer steps of epoch `e`: its windows in which a token counts.
    pub fn steps_in(&self, e: u64, accum: usize) -> u64 {
        self.steps_before(&self.epoch(e), accum, u64::MAX)
    }

    /// Steps that the first `windows` windows of an epoch make.
    fn steps_before(&self, epoch: &Epoch, accum: usize, windows: u64) -> u64 {
        let counts = |range: Range<usize>| self.extent(epoch.span(range)).counted > 0;
        let within = usize::try_from(windows).unwrap_or(usize::MAX);
        epoch.windows(accum).take(within).filter(|range| counts(range.clone())).count() as u64
    }

    /// Whether every epoch makes the same number of steps, so that one need be counted only.
    fn epochs_are_alike(&self) -> bool {
        let all_count = || self.rows.iter().all(|row| self.sizes.counted.get(*row as usize).is_some_and(|n| *n > 0));
        self.seed.is_none() || (self.pack.is_none() && all_count())
    }

    /// Optimizer steps of a whole training: what a schedule of learning rates counts.
    pub fn total_steps(&self, length: Length, accum: usize) -> u64 {
        match length {
            Length::Steps(steps) => steps,
            Length::Epochs(epochs) if self.epochs_are_alike() => self.steps_in(0, accum).saturating_mul(epochs),
            Length::Epochs(epochs) => (0..epochs).map(|e| self.steps_in(e, accum)).sum(),
        }
    }

    /// Steps made before `cursor` is reached.
    pub fn steps_until(&self, cursor: Cursor, accum: usize) -> u64 {
        let whole = self.total_steps(Length::Epochs(cursor.epoch), accum);
        if cursor.window == 0 {
            return whole;
        }
        whole + self.steps_before(&self.epoch(cursor.epoch), accum, cursor.window)
    }

    /// The windows of a training from `cursor` on, in order.
    pub fn walk(&self, length: Length, accum: usize, cursor: Cursor) -> Walk<'_> {
        let left = match length {
            Length::Steps(steps) => Some(steps.saturating_sub(self.steps_until(cursor, accum))),
            Length::Epochs(_) => None,
        };
        // A set in which nothing counts makes no step however often it is gone through.
        let stuck = left.is_some() && self.extent(&self.rows).counted == 0;
        Walk { plan: self, length, accum: accum.max(1), cursor, left: if stuck { Some(0) } else { left }, epoch: None }
    }
}

/// One pass over the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    order: Vec<u32>,
    /// Where each micro-batch ends in `order`.
    ends: Vec<usize>,
}

impl Epoch {
    /// Micro-batches.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Rows of micro-batch `i`, in order.
    pub fn micro(&self, i: usize) -> &[u32] {
        self.span(i..i.saturating_add(1))
    }

    pub fn micros(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|i| self.micro(i))
    }

    /// Rows of a range of micro-batches.
    fn span(&self, range: Range<usize>) -> &[u32] {
        let start = match range.start.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before).copied().unwrap_or(self.order.len()),
        };
        let end = match range.end.checked_sub(1) {
            None => 0,
            Some(last) => self.ends.get(last).copied().unwrap_or(self.order.len()),
        };
        self.order.get(start..end).unwrap_or(&[])
    }

    /// Ranges of micro-batches that make an optimizer step each; the last may be short.
    pub fn windows(&self, accum: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (count, accum) = (self.len(), accum.max(1));
        (0..count.div_ceil(accum)).map(move |i| i * accum..(i * accum).saturating_add(accum).min(count))
    }
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

/// The flat tensors of one micro-batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Tokens of all rows, one row after another.
    pub ids: Vec<u32>,
    /// Where each row begins in `ids`, and at the end how many there are: rows + 1 entries.
    pub starts: Vec<u32>,
    /// For each token the id that should follow, or [`IGNORED`].
    pub labels: Vec<u32>,
    /// Labels that are not ignored.
    pub counted: usize,
    /// The rows themselves: seeds of random numbers are drawn by row.
    pub rows: Vec<u32>,
}

impl Batch {
    /// Writes the rows of a micro-batch; memory of an earlier one is used again.
    pub fn fill(&mut self, set: &TokenSet, rows: &[u32]) {
        self.ids.clear();
        self.labels.clear();
        self.starts.clear();
        self.rows.clear();
        self.rows.extend_from_slice(rows);
        for row in rows {
            self.starts.push(self.ids.len() as u32);
            let (ids, counted) = (set.ids(*row), set.counted(*row));
            self.ids.extend_from_slice(ids);
            let labels = ids.iter().zip(counted).skip(1).map(|(id, counts)| if *counts { *id } else { IGNORED });
            self.labels.extend(labels.chain((!ids.is_empty()).then_some(IGNORED)));
        }
        self.starts.push(self.ids.len() as u32);
        self.counted = self.labels.iter().filter(|label| **label != IGNORED).count();
    }

    pub fn extent(&self) -> Extent {
        let lens = self.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        Extent {
            tokens: self.ids.len(),
            counted: self.counted,
            longest: lens.max().unwrap_or(0),
            segments: self.rows.len(),
        }
    }
}
