//! Tokens of one pass through the model: rows of unequal length laid end to end, with no padding between them.

use super::shape::Shape;
use crate::kernels::Segment;
use crate::text::{Fault, Result};

/// A label that does not count in the loss.
pub const NOT_COUNTED: u32 = u32::MAX;

/// A micro-batch as it is given.
#[derive(Debug, Clone, Copy)]
pub struct TokenBatch<'a> {
    pub ids: &'a [u32],
    /// Where each row begins, and at the end the number of tokens.
    pub starts: &'a [u32],
    /// The token that each position has to foretell; [`NOT_COUNTED`] where none is asked for.
    pub labels: &'a [u32],
}

/// The largest a run's micro-batches get, each figure on its own: what buffers are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Tokens of a micro-batch.
    pub tokens: usize,
    /// Tokens of a micro-batch that count in the loss.
    pub counted: usize,
    /// Tokens of a row.
    pub longest: usize,
}

impl Extent {
    /// Covers both.
    pub fn max(self, other: Extent) -> Extent {
        Extent {
            tokens: self.tokens.max(other.tokens),
            counted: self.counted.max(other.counted),
            longest: self.longest.max(other.longest),
        }
    }

    pub fn of(batch: &TokenBatch<'_>) -> Extent {
        Extent {
            tokens: batch.ids.len(),
            counted: batch.labels.iter().filter(|label| **label != NOT_COUNTED).count(),
            longest: batch.starts.windows(2).map(|w| w[1].saturating_sub(w[0]) as usize).max().unwrap_or(0),
        }
    }
}

/// A micro-batch made ready: checked, with what kernels want to know of it. A few kilobytes.
pub(crate) struct Laid<'a> {
    pub ids: &'a [u32],
    /// Position of each token in its row.
    pub positions: Vec<u32>,
    pub segments: Vec<Segment>,
    /// Positions whose logits are wanted.
    pub rows: Vec<u32>,
    /// The label of each of `rows`.
    pub labels: Vec<u32>,
    /// Tokens before these in the cache: not 0 only in generation.
    pub past: usize,
}

impl<'a> Laid<'a> {
    /// A micro-batch to be scored: the wanted positions are those that count.
    pub fn scored(batch: &TokenBatch<'a>, shape: &Shape) -> Result<Laid<'a>> {
        let n = batch.ids.len();
        if batch.labels.len() != n {
            return Err(Fault::new(
                "batch.labels",
                format!("a batch of {n} tokens came with {} labels", batch.labels.len()),
            ));
        }
        known_tokens(batch.ids, shape)?;
        let (rows, labels): (Vec<u32>, Vec<u32>) = (0u32..)
            .zip(batch.labels)
            .filter(|(_, label)| **label != NOT_COUNTED)
            .map(|(row, label)| (row, *label))
            .unzip();
        known_tokens(&labels, shape)?;
        let mut positions = Vec::with_capacity(n);
        let mut segments = Vec::with_capacity(batch.starts.len());
        for pair in batch.starts.windows(2) {
            let (start, end) = (pair[0] as usize, pair[1] as usize);
            if start != positions.len() || end <= start {
                return Err(starts_fault());
            }
            positions.extend(0..pair[1] - pair[0]);
            segments.push(Segment { q: start..end, k: start..end });
        }
        if positions.len() != n || n == 0 {
            return Err(starts_fault());
        }
        Ok(Laid { ids: batch.ids, positions, segments, rows, labels, past: 0 })
    }

    /// One row that goes on after `past` cached tokens; the wanted positions are given.
    pub fn continued(ids: &'a [u32], past: usize, rows: Vec<u32>, shape: &Shape) -> Result<Laid<'a>> {
        known_tokens(ids, shape)?;
        if ids.is_empty() {
            return Err(Fault::new("batch.empty", "there is no token to run the model on").help("give a prompt"));
        }
        let n = ids.len();
        let positions = (0..n).map(|i| u32::try_from(past + i).unwrap_or(u32::MAX)).collect();
        Ok(Laid { ids, positions, segments: vec![Segment { q: 0..n, k: 0..past + n }], rows, labels: Vec::new(), past })
    }

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    pub fn counted(&self) -> usize {
        self.rows.len()
    }

    pub fn extent(&self) -> Extent {
        Extent {
            tokens: self.tokens(),
            counted: self.counted(),
            longest: self.segments.iter().map(|s| s.k.len()).max().unwrap_or(0),
        }
    }
}

fn known_tokens(ids: &[u32], shape: &Shape) -> Result<()> {
    match ids.iter().find(|id| **id as usize >= shape.vocab) {
        None => Ok(()),
        Some(id) => Err(Fault::new(
            "data.unknown_token",
            format!("token {id} is outside the model's vocabulary of {}", shape.vocab),
        )
        .note("the tokenizer and the model do not belong together")
        .help("name the model's own tokenizer with `tokenizer=`")),
    }
}

fn starts_fault() -> Fault {
    Fault::new("batch.starts", "a batch's rows do not cover its tokens one after the other")
}
