//! A tokenised data set: flat storage, and the lengths that are enough to plan by.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Origin, Work};

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
    /// The first few rows that `zero_counted` counts.
    pub zero_places: Vec<Origin>,
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
    /// Counts what another says, whose files come after `files` others.
    fn add(&mut self, other: &Report, files: u32) {
        self.read += other.read;
        self.rows += other.rows;
        self.dropped_long += other.dropped_long;
        self.truncated += other.truncated;
        self.split += other.split;
        self.dropped_empty += other.dropped_empty;
        self.zero_counted += other.zero_counted;
        self.answer_cut += other.answer_cut;
        self.zero_places.extend(other.zero_places.iter().map(|origin| origin.after(files)));
        self.duplicate_bos += other.duplicate_bos;
        self.no_eos |= other.no_eos;
        self.tokens += other.tokens;
        self.counted += other.counted;
        self.longest = self.longest.max(other.longest);
        self.longest_read = self.longest_read.max(other.longest_read);
        self.highest_id = self.highest_id.max(other.highest_id);
    }
}

/// Ids of one row or of a part of one, with what is known of them.
#[derive(Debug)]
pub(super) struct Piece {
    ids: Vec<u32>,
    counted: Vec<bool>,
    labels: usize,
    hash: u64,
}

impl Piece {
    /// Both have one entry a token.
    pub fn new(ids: Vec<u32>, counted: Vec<bool>) -> Self {
        debug_assert_eq!(ids.len(), counted.len());
        let labels = counted.iter().skip(1).filter(|counts| **counts).count();
        Piece { labels, hash: hash(&ids), ids, counted }
    }
}

/// Tokens of rows that follow one another.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub ids: Vec<u32>,
    pub counted: Vec<bool>,
}

/// Rows of ids, one after another.
#[derive(Debug, Clone, Default)]
pub struct TokenSet {
    /// Ids in stretches of whole rows: a stretch never moves once it is made, and sets that are joined share theirs.
    /// None where only lengths are held.
    segments: Vec<Arc<Segment>>,
    /// Token at which each segment begins.
    bases: Vec<usize>,
    /// Token at which each row begins; one more entry than rows.
    offsets: Vec<usize>,
    origins: Vec<Origin>,
    sizes: Sizes,
    pub report: Report,
    pub work: Work,
}

/// A token set while it is made, a window of rows at a time. What grows with the rows is kept in parts, so that nothing
/// is ever moved to a place twice as large.
#[derive(Default)]
pub(super) struct Builder {
    segments: Vec<Arc<Segment>>,
    len: Vec<Vec<u32>>,
    counted: Vec<Vec<u32>>,
    hash: Vec<Vec<u64>>,
    origins: Vec<Vec<Origin>>,
    pub report: Report,
    work: Work,
}

impl Builder {
    /// Takes over the rows of a window; `work`: what the window held, what is kept of it aside.
    pub fn append(&mut self, rows: Vec<(Piece, Origin)>, work: Work) {
        let tokens = rows.iter().map(|(piece, _)| piece.ids.len()).sum();
        let all = self.work.all.and(work.window);
        self.work = self.work.max(Work { kept: tokens as u64, all, ..work });
        let mut segment = Segment { ids: Vec::with_capacity(tokens), counted: Vec::with_capacity(tokens) };
        let report = &mut self.report;
        for (piece, _) in &rows {
            segment.ids.extend_from_slice(&piece.ids);
            segment.counted.extend_from_slice(&piece.counted);
            report.rows += 1;
            report.tokens += piece.ids.len() as u64;
            report.counted += piece.labels as u64;
            report.longest = report.longest.max(piece.ids.len());
            report.highest_id = report.highest_id.max(piece.ids.iter().copied().max().unwrap_or(0));
        }
        if rows.is_empty() {
            return;
        }
        self.segments.push(Arc::new(segment));
        self.len.push(rows.iter().map(|(piece, _)| narrow(piece.ids.len())).collect());
        self.counted.push(rows.iter().map(|(piece, _)| narrow(piece.labels)).collect());
        self.hash.push(rows.iter().map(|(piece, _)| piece.hash).collect());
        self.origins.push(rows.iter().map(|(_, origin)| *origin).collect());
    }

    pub fn finish(self) -> TokenSet {
        let Builder { segments, len, counted, hash, origins, report, work } = self;
        // One after another, so that only one of them is there twice.
        let (len, counted, hash, origins) = (whole(len), whole(counted), whole(hash), whole(origins));
        TokenSet::of(segments, Sizes { len, counted, hash }, origins, report, work)
    }
}

/// Parts as one; they are gone when it returns.
fn whole<T: Copy>(parts: Vec<Vec<T>>) -> Vec<T> {
    parts.concat()
}

impl TokenSet {
    /// A set of rows whose tokens lie in `segments`, or are not held.
    pub(super) fn of(
        segments: Vec<Arc<Segment>>,
        sizes: Sizes,
        origins: Vec<Origin>,
        report: Report,
        work: Work,
    ) -> Self {
        let mut offsets = Vec::with_capacity(sizes.len.len() + 1);
        let mut end = 0usize;
        offsets.push(0);
        offsets.extend(sizes.len.iter().map(|len| {
            end = end.saturating_add(*len as usize);
            end
        }));
        let bases = bases(&segments);
        TokenSet { segments, bases, offsets, origins, sizes, report, work }
    }

    /// Several sets as one, their rows in order; files are counted on from set to set, each of which read `files` of
    /// them. Tokens are shared with the sets, not copied.
    pub fn join<'s>(sets: impl Iterator<Item = (&'s TokenSet, usize)>) -> TokenSet {
        let (mut segments, mut sizes, mut origins) = (Vec::new(), Sizes::default(), Vec::new());
        let (mut report, mut work, mut files) = (Report::default(), Work::default(), 0u32);
        let mut all = true;
        for (set, read) in sets {
            all &= set.holds_tokens();
            segments.extend(set.segments.iter().cloned());
            origins.extend(set.origins.iter().map(|origin| origin.after(files)));
            sizes.len.extend_from_slice(&set.sizes.len);
            sizes.counted.extend_from_slice(&set.sizes.counted);
            sizes.hash.extend_from_slice(&set.sizes.hash);
            report.add(&set.report, files);
            work = work.max(set.work);
            files = files.saturating_add(narrow(read));
        }
        origins.shrink_to_fit();
        sizes.len.shrink_to_fit();
        sizes.counted.shrink_to_fit();
        sizes.hash.shrink_to_fit();
        let set = TokenSet::of(segments, sizes, origins, report, work);
        // Tokens of some rows are found nowhere.
        if all { set } else { set.without_tokens() }
    }

    /// Lets the tokens go, and keeps what a planner needs.
    pub fn without_tokens(mut self) -> Self {
        (self.segments, self.bases) = (Vec::new(), Vec::new());
        self
    }

    /// Whether the tokens themselves are there, not only their lengths.
    pub fn holds_tokens(&self) -> bool {
        !self.segments.is_empty()
    }

    pub(super) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    pub(super) fn origins(&self) -> &[Origin] {
        &self.origins
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

    /// Bytes that the set takes in RAM with its tokens, its sizes included.
    pub fn bytes(&self) -> u64 {
        let row = size_of::<usize>() + size_of::<Origin>() + 16;
        self.report.tokens * 5 + (self.len() as u64) * row as u64
    }

    /// A row's segment and its tokens there; none where the tokens are not held.
    fn find(&self, row: u32) -> Option<(&Segment, Range<usize>)> {
        let row = row as usize;
        let (start, end) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
        let at = self.bases.partition_point(|base| *base <= start).checked_sub(1)?;
        let base = *self.bases.get(at)?;
        Some((self.segments.get(at)?, start.checked_sub(base)?..end.checked_sub(base)?))
    }

    /// The ids of a row; empty for a row that does not exist, and where only lengths are held.
    pub fn ids(&self, row: u32) -> &[u32] {
        self.find(row).and_then(|(segment, range)| segment.ids.get(range)).unwrap_or_default()
    }

    /// Which tokens of a row count: as a label, so the first one's flag has no effect.
    pub fn counted(&self, row: u32) -> &[bool] {
        self.find(row).and_then(|(segment, range)| segment.counted.get(range)).unwrap_or_default()
    }

    /// Where a row came from.
    pub fn origin(&self, row: u32) -> Option<Origin> {
        self.origins.get(row as usize).copied()
    }
}

fn bases(segments: &[Arc<Segment>]) -> Vec<usize> {
    let mut next = 0usize;
    let base = |segment: &Arc<Segment>| {
        let base = next;
        next = next.saturating_add(segment.ids.len());
        base
    };
    segments.iter().map(base).collect()
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn hash(ids: &[u32]) -> u64 {
    let mut sha = Sha256::new();
    for part in ids.chunks(64) {
        let mut bytes = [0u8; 256];
        for (to, id) in bytes.chunks_exact_mut(4).zip(part) {
            to.copy_from_slice(&id.to_le_bytes());
        }
        sha.update(bytes.get(..part.len() * 4).unwrap_or_default());
    }
    let digest = sha.finalize();
    digest.iter().take(8).rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}
