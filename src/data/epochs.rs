//! Which rows meet in which micro-batch of which epoch.
//!
//! A *sequence* is one row, or with `packed` as many rows, in order, as fit into `max_len`; a micro-batch is `batch`
//! sequences, the last of an epoch perhaps fewer.

use std::collections::BTreeSet;
use std::ops::Range;

use super::order::{pass, shuffle, shuffle_copies};
use super::{Cursor, Extent, Length, Sizes, Walk};
use crate::text::{Fault, Result};

/// How much of a stretch of rows an epoch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Where the stretch ends; it begins where the one before ends.
    pub end: usize,
    /// So many rows, the next ones in every epoch, each once before any comes again; none: all.
    pub take: Option<usize>,
    /// Times that an epoch goes through them.
    pub repeat: u32,
}

/// Every micro-batch of every epoch, as a function of lengths and a seed.
#[derive(Debug, Clone)]
pub struct BatchPlan<'a> {
    sizes: &'a Sizes,
    rows: Vec<u32>,
    /// Stretches of `rows` with how much of each an epoch has; none: all of all, once.
    draws: Vec<Draw>,
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
        let plan =
            BatchPlan { sizes, rows: rows.to_vec(), draws: Vec::new(), batch, pack, seed: shuffle.then_some(seed) };
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

    /// The same plan with another share of each stretch of its rows in an epoch.
    pub fn drawn(mut self, draws: &[Draw]) -> Self {
        if draws.iter().any(|draw| draw.take.is_some() || draw.repeat != 1) {
            self.draws = draws.to_vec();
        }
        self
    }

    /// The rows of epoch `e`, and which copy of a row each is, before they are shuffled.
    fn drawn_rows(&self, e: u64) -> Vec<(u32, u32)> {
        let mut order = Vec::new();
        let mut start = 0;
        for draw in &self.draws {
            let part = self.rows.get(start..draw.end).unwrap_or(&[]);
            start = draw.end;
            match draw.take {
                None => (0..draw.repeat).for_each(|copy| order.extend(part.iter().map(|row| (*row, copy)))),
                Some(take) if !part.is_empty() => self.taken(part, take as u64, e, &mut order),
                Some(_) => {}
            }
        }
        order
    }

    /// The next `take` rows of pass after pass over `part`: every row once before any comes again.
    fn taken(&self, part: &[u32], take: u64, e: u64, order: &mut Vec<(u32, u32)>) {
        let all = part.len() as u64;
        let (mut at, end) = (e.saturating_mul(take), e.saturating_add(1).saturating_mul(take));
        let first = at / all;
        while at < end {
            let number = at / all;
            let mut rows = part.to_vec();
            if let Some(seed) = self.seed {
                pass(&mut rows, seed, number);
            }
            let until = end.min((number + 1).saturating_mul(all));
            let copy = (number - first) as u32;
            let range = (at % all) as usize..(until - number * all) as usize;
            order.extend(rows.get(range).unwrap_or(&[]).iter().map(|row| (*row, copy)));
            at = until;
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
        let order = if self.draws.is_empty() {
            let mut order = self.rows.clone();
            if let Some(seed) = self.seed {
                shuffle(&mut order, seed, e);
            }
            order
        } else {
            let mut drawn = self.drawn_rows(e);
            if let Some(seed) = self.seed {
                shuffle_copies(&mut drawn, seed, e);
            }
            drawn.into_iter().map(|(row, _)| row).collect()
        };
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
        let takes = self.draws.iter().any(|draw| draw.take.is_some());
        let all_count = || self.rows.iter().all(|row| self.sizes.counted.get(*row as usize).is_some_and(|n| *n > 0));
        (self.seed.is_none() && !takes) || (self.pack.is_none() && all_count())
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

    /// The sizes that micro-batches of a training have, each once, ascending: what a planner sizes buffers by.
    pub fn extents(&self, length: Length, accum: usize) -> Vec<Extent> {
        let takes = self.draws.iter().any(|draw| draw.take.is_some());
        let alone = self.pack.is_none() && self.batch == 1;
        let length = match length {
            // Every epoch has the same micro-batches, if perhaps in another order.
            Length::Epochs(epochs) if !takes && (alone || self.seed.is_none()) => Length::Epochs(epochs.min(1)),
            length => length,
        };
        let mut extents = BTreeSet::new();
        for window in self.walk(length, accum, Cursor::default()) {
            extents.extend(window.micros().map(|micro| self.extent(micro)));
        }
        extents.into_iter().collect()
    }

    /// The windows of a training from `cursor` on, in order.
    pub fn walk(&self, length: Length, accum: usize, cursor: Cursor) -> Walk<'_> {
        let left = match length {
            Length::Steps(steps) => Some(steps.saturating_sub(self.steps_until(cursor, accum))),
            Length::Epochs(_) => None,
        };
        // A set in which nothing counts makes no step however often it is gone through.
        let stuck = left.is_some() && self.extent(&self.rows).counted == 0;
        Walk::new(self, length, accum, cursor, if stuck { Some(0) } else { left })
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
    pub(super) fn span(&self, range: Range<usize>) -> &[u32] {
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
