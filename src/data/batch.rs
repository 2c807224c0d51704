//! The flat tensors of one micro-batch. There is no padding: rows stand one after another, and attention and positions
//! restart at each.

use serde::{Deserialize, Serialize};

use super::TokenSet;

/// The label of a position that does not count.
pub const IGNORED: u32 = u32::MAX;

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
