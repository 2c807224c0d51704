//! A tokenised data set: flat storage, and the lengths that are enough to plan by.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Origin;

/// What a planner needs to know of each row, small enough to keep beside a run: lengths, counted labels, hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Tokens of each row.
    pub len: Vec<u32>,
    /// Positions of each row that count in the loss.
    pub counted: Vec<u32>,
    /// First eight bytes, little-endian, of the SHA-256 of the row's ids as little-endian 32-bit words.
    pub hash: Vec<u64>,
}

impl Sizes {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.len.len()
    }
}

/// What became of the rows, in numbers that a person should see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Rows read.
    pub read: usize,
    /// Rows kept.
    pub rows: usize,
    /// Longer than `max_len`, left out by `long=drop`.
    pub dropped_long: usize,
    /// Longer than `max_len`, shortened by `long=truncate`.
    pub truncated: usize,
    /// Longer than `max_len`, cut into several rows by `long=split`.
    pub split: usize,
    /// Left out because nothing is in them.
    pub dropped_empty: usize,
    /// Left out because no token of them counts in the loss; where truncation did it, also in `answer_cut`.
    pub zero_counted: usize,
    /// Left out because truncation took the whole answer.
    pub answer_cut: usize,
    /// The first few rows that `zero_counted` counts, as `file:line`.
    pub zero_places: Vec<String>,
    /// Rows with an answer that the chat template does not write out.
    pub unwritten: usize,
    /// Rows with tools or tool calls that the chat template has no place for.
    pub tools_unread: usize,
    /// Rows whose text brought a second beginning-of-text token, which was taken out.
    pub duplicate_bos: usize,
    /// The tokenizer knows no end-of-text token, so rows do not end with one.
    pub no_eos: bool,
    /// Tokens kept.
    pub tokens: u64,
    /// Positions that count in the loss.
    pub counted: u64,
    /// Tokens of the longest row.
    pub longest: usize,
    /// Tokens of the longest row before `max_len` had its say.
    pub longest_read: usize,
    /// Highest id; a model needs an embedding row for it.
    pub highest_id: u32,
}

impl Report {
    fn add(&mut self, other: &Report) {
        self.read += other.read;
        self.rows += other.rows;
        self.dropped_long += other.dropped_long;
        self.truncated += other.truncated;
        self.split += other.split;
        self.dropped_empty += other.dropped_empty;
        self.zero_counted += other.zero_counted;
        self.answer_cut += other.answer_cut;
        self.zero_places.extend(other.zero_places.iter().cloned());
        self.duplicate_bos += other.duplicate_bos;
        self.no_eos |= other.no_eos;
        self.tokens += other.tokens;
        self.counted += other.counted;
        self.longest = self.longest.max(other.longest);
        self.longest_read = self.longest_read.max(other.longest_read);
        self.highest_id = self.highest_id.max(other.highest_id);
    }
}

/// Rows of ids, one after another.
#[derive(Debug, Clone, Default)]
pub struct TokenSet {
    ids: Vec<u32>,
    counted: Vec<bool>,
    /// Where each row begins in `ids`; one more entry than rows.
    offsets: Vec<usize>,
    origins: Vec<Origin>,
    sizes: Sizes,
    pub report: Report,
}

impl TokenSet {
    pub(super) fn new() -> Self {
        TokenSet { offsets: vec![0], ..TokenSet::default() }
    }

    /// Appends a row; both slices have one entry a token.
    pub(super) fn push(&mut self, ids: &[u32], counted: &[bool], origin: Origin) {
        debug_assert_eq!(ids.len(), counted.len());
        let labels = counted.iter().skip(1).filter(|counts| **counts).count();
        self.ids.extend_from_slice(ids);
        self.counted.extend_from_slice(counted);
        self.offsets.push(self.ids.len());
        self.origins.push(origin);
        self.sizes.len.push(narrow(ids.len()));
        self.sizes.counted.push(narrow(labels));
        self.sizes.hash.push(hash(ids));
        let report = &mut self.report;
        report.rows += 1;
        report.tokens += ids.len() as u64;
        report.counted += labels as u64;
        report.longest = report.longest.max(ids.len());
        report.highest_id = report.highest_id.max(ids.iter().copied().max().unwrap_or(0));
    }

    /// Several sets as one, their rows in order; files are counted on from set to set, each of which read `files` of
    /// them.
    pub fn join<'s>(sets: impl Iterator<Item = (&'s TokenSet, usize)>) -> TokenSet {
        let mut all = TokenSet::new();
        let mut files = 0u32;
        for (set, read) in sets {
            let base = all.ids.len();
            all.ids.extend_from_slice(&set.ids);
            all.counted.extend_from_slice(&set.counted);
            all.offsets.extend(set.offsets.iter().skip(1).map(|end| base + end));
            let origin = |origin: &Origin| Origin { file: origin.file.saturating_add(files), ..*origin };
            all.origins.extend(set.origins.iter().map(origin));
            files = files.saturating_add(narrow(read));
            all.sizes.len.extend_from_slice(&set.sizes.len);
            all.sizes.counted.extend_from_slice(&set.sizes.counted);
            all.sizes.hash.extend_from_slice(&set.sizes.hash);
            all.report.add(&set.report);
        }
        all.finish();
        all
    }

    /// Gives back what growth left over.
    pub(super) fn finish(&mut self) {
        self.ids.shrink_to_fit();
        self.counted.shrink_to_fit();
        self.offsets.shrink_to_fit();
        self.origins.shrink_to_fit();
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Bytes that the set holds in RAM, its sizes included.
    pub fn bytes(&self) -> u64 {
        let row = size_of::<usize>() + size_of::<Origin>() + 16;
        (self.ids.len() as u64) * 5 + (self.len() as u64) * row as u64
    }

    fn range(&self, row: u32) -> Range<usize> {
        let row = row as usize;
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(start), Some(end)) => *start..*end,
            _ => 0..0,
        }
    }

    /// The ids of a row; empty for a row that does not exist.
    pub fn ids(&self, row: u32) -> &[u32] {
        &self.ids[self.range(row)]
    }

    /// Which tokens of a row count: as a label, so the first one's flag has no effect.
    pub fn counted(&self, row: u32) -> &[bool] {
        &self.counted[self.range(row)]
    }

    /// Where a row came from.
    pub fn origin(&self, row: u32) -> Option<Origin> {
        self.origins.get(row as usize).copied()
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn hash(ids: &[u32]) -> u64 {
    let mut sha = Sha256::new();
    for id in ids {
        sha.update(id.to_le_bytes());
    }
    let digest = sha.finalize();
    digest.iter().take(8).rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}
