//! Token sets that outlive a command: what one tokenised, the next finds by the content that it was made of.
//!
//! An entry has two parts, each with its SHA-256: what a planner needs (lengths, hashes, places, the report), then the
//! tokens. A plan reads the first part alone. Paths are in no entry: rows are the same wherever their file lies.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::read::extension;
use super::tokens::Segment;
use super::{ChatTemplate, Origin, Report, Settings, Sizes, TokenSet, Tokenizer, Work, tokenise};
use crate::store::{AtomicFile, Cache, Sum, sum_of};
use crate::text::Result;

/// Begins every entry. Counted up whenever the same rows would be tokenised to other tokens, or lie otherwise in an
/// entry; the program's version is part of the key besides.
const MAGIC: &[u8; 16] = b"tunepipe rows 2\n";
const KIND: &str = "rows";
/// Bytes of an entry that are read or written at once.
pub(super) const ENTRY_BUFFER: usize = 1 << 16;
/// Tokens of a segment that is read back, as far as rows allow.
const SEGMENT: usize = 1 << 20;
/// Longer than any [`Head`].
const LONGEST_HEAD: u64 = 1 << 20;

/// What a token set is made of.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub settings: &'a Settings,
    pub tokenizer: &'a Tokenizer,
    /// A chat template by name or as it is; none: the tokenizer's own.
    pub template: Option<&'a str>,
}

/// What is going on, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Files are looked at, to find out whether their tokens are kept.
    Looking,
    Tokenising,
    /// Kept tokens are read.
    Reading,
}

/// The rows of a data set, tokenised: as they were kept, or anew; with `whole` the tokens themselves, else their lengths.
/// `progress` hears of (done, total) bytes.
///
/// # Errors
/// Those of [`tokenise`], and of [`ChatTemplate::choose`].
pub fn tokens(
    source: Source<'_>,
    cache: Option<&Cache>,
    whole: bool,
    progress: &mut dyn FnMut(Heard, u64, u64),
) -> Result<TokenSet> {
    let Source { settings, tokenizer, template } = source;
    let chosen = ChatTemplate::choose(template, tokenizer)?;
    let known = cache.and_then(|cache| {
        let sums = sums(settings, cache, &mut |done, total| progress(Heard::Looking, done, total))?;
        Some((cache, key(source, &sums), sums))
    });
    if let Some((cache, key, _)) = &known
        && let Some(file) = cache.open(KIND, key)
        && let Some(set) = load(file, whole, &mut |done, total| progress(Heard::Reading, done, total))
    {
        return Ok(set);
    }
    let (set, read) = tokenise(settings, tokenizer, chosen.as_ref(), &mut |done, total| {
        progress(Heard::Tokenising, done, total);
    })?;
    // A file that changed meanwhile is not what the key says.
    if let Some((cache, key, sums)) = known
        && sums == read
        && let Some(bytes) = bytes_of(&set)
    {
        cache.keep(KIND, &key, bytes, |file| save(file, &set));
    }
    Ok(if whole { set } else { set.without_tokens() })
}

/// SHA-256 of each file. None where one cannot be read: whoever reads its rows will say so.
fn sums(settings: &Settings, cache: &Cache, progress: &mut dyn FnMut(u64, u64)) -> Option<Vec<Sum>> {
    let bytes = |path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
    let total = settings.paths.iter().map(bytes).sum::<Option<u64>>()?;
    let mut done = 0u64;
    let mut hear = |bytes: u64| {
        done = done.saturating_add(bytes);
        progress(done.min(total), total);
    };
    let sums = settings.paths.iter().map(|path| sum_of(path, Some(cache), &mut hear).ok()).collect();
    progress(total, total);
    sums
}

/// Names everything that decides the rows of a set: equal keys, equal rows.
fn key(source: Source<'_>, sums: &[Sum]) -> Sum {
    // Every setting is named here, so that a new one has to take a side.
    let Settings {
        paths,
        format,
        text,
        prompt,
        completion,
        train_on,
        max_len,
        long,
        holdout: _,
        take: _,
        repeat: _,
        packed: _,
        shuffle: _,
        eos,
        bos,
    } = source.settings;
    // A file's name has a say in whether it is taken for prose.
    let kinds: Vec<String> = paths.iter().map(|path| extension(path)).collect();
    let settings = json!([kinds, format, text, prompt, completion, train_on, max_len, long, eos, bos]).to_string();
    let template = source.template.map(|given| ChatTemplate::builtin(given).unwrap_or(given));
    let template = json!(template).to_string();
    let fingerprint = source.tokenizer.fingerprint();
    let mut sha = Sha256::new();
    let parts = [&MAGIC[..], env!("CARGO_PKG_VERSION").as_bytes(), settings.as_bytes(), template.as_bytes()];
    for part in parts.into_iter().chain([fingerprint.as_bytes()]).chain(sums.iter().map(|sum| &sum[..])) {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// What is said of an entry before its numbers.
#[derive(Serialize, Deserialize)]
struct Head {
    rows: u64,
    tokens: u64,
    report: Report,
    work: Work,
}

impl Head {
    fn of(set: &TokenSet) -> Self {
        Head { rows: set.len() as u64, tokens: set.report.tokens, report: set.report.clone(), work: set.work }
    }

    /// Bytes of an entry that begins with this one, itself of `len` bytes: magic, length and head, what a row takes,
    /// a sum, what a token takes, a sum.
    fn entry(&self, len: u64) -> Option<u64> {
        let rows = self.rows.checked_mul(4 + 4 + 8 + 4 + 8)?;
        let tokens = self.tokens.checked_mul(4 + 1)?;
        (16 + 8 + 32 + 32u64).checked_add(len)?.checked_add(rows)?.checked_add(tokens)
    }
}

fn bytes_of(set: &TokenSet) -> Option<u64> {
    let head = Head::of(set);
    head.entry(serde_json::to_vec(&head).ok()?.len() as u64)
}

fn save(file: &mut AtomicFile, set: &TokenSet) -> Result<()> {
    let mut out = Out { file, sha: Sha256::new(), held: Vec::with_capacity(ENTRY_BUFFER) };
    let head = serde_json::to_vec(&Head::of(set)).unwrap_or_default();
    out.put(MAGIC)?;
    out.put(&(head.len() as u64).to_le_bytes())?;
    out.put(&head)?;
    let (sizes, origins) = (set.sizes(), set.origins());
    out.numbers(sizes.len.iter().map(|n| n.to_le_bytes()))?;
    out.numbers(sizes.counted.iter().map(|n| n.to_le_bytes()))?;
    out.numbers(sizes.hash.iter().map(|n| n.to_le_bytes()))?;
    out.numbers(origins.iter().map(|origin| origin.file.to_le_bytes()))?;
    out.numbers(origins.iter().map(|origin| origin.line.to_le_bytes()))?;
    out.seal()?;
    for segment in set.segments() {
        out.numbers(segment.ids.iter().map(|id| id.to_le_bytes()))?;
    }
    for segment in set.segments() {
        out.numbers(segment.counted.iter().map(|counts| [u8::from(*counts)]))?;
    }
    out.seal()
}

/// A file with the sum of what was put there since the last seal.
struct Out<'f> {
    file: &'f mut AtomicFile,
    sha: Sha256,
    held: Vec<u8>,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sha.update(bytes);
        self.file.put(bytes)
    }

    fn numbers<const N: usize>(&mut self, numbers: impl Iterator<Item = [u8; N]>) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        for number in numbers {
            held.extend_from_slice(&number);
            if held.len() + N > ENTRY_BUFFER {
                self.put(&held)?;
                held.clear();
            }
        }
        self.put(&held)?;
        held.clear();
        self.held = held;
        Ok(())
    }

    fn seal(&mut self) -> Result<()> {
        let sum: Sum = self.sha.finalize_reset().into();
        self.file.put(&sum)
    }
}

/// Reads an entry back. None where it is damaged, or none of ours: it is then made again.
fn load(file: File, whole: bool, progress: &mut dyn FnMut(u64, u64)) -> Option<TokenSet> {
    let total = file.metadata().ok()?.len();
    let mut from = In { file, sha: Sha256::new(), held: vec![0; ENTRY_BUFFER], done: 0, total, progress };
    let mut magic = [0; MAGIC.len()];
    from.exact(&mut magic)?;
    let mut len = [0; 8];
    from.exact(&mut len)?;
    let len = u64::from_le_bytes(len);
    if magic != *MAGIC || len > LONGEST_HEAD {
        return None;
    }
    let mut head = vec![0; usize::try_from(len).ok()?];
    from.exact(&mut head)?;
    let head: Head = serde_json::from_slice(&head).ok()?;
    // Before anything is taken for its rows: a file of that length has them.
    if head.entry(len)? != total || head.tokens != head.report.tokens || head.rows != head.report.rows as u64 {
        return None;
    }
    let rows = usize::try_from(head.rows).ok()?;
    let len = from.numbers(rows, u32::from_le_bytes)?;
    let counted = from.numbers(rows, u32::from_le_bytes)?;
    let hash = from.numbers(rows, u64::from_le_bytes)?;
    let mut origins: Vec<Origin> = Vec::with_capacity(rows);
    from.each(rows, |file| origins.push(Origin { file: u32::from_le_bytes(file), line: 0 }))?;
    let mut places = origins.iter_mut();
    from.each(rows, |line| {
        if let Some(origin) = places.next() {
            origin.line = u64::from_le_bytes(line);
        }
    })?;
    from.sealed()?;
    let stretches = stretches(&len);
    if stretches.iter().try_fold(0u64, |sum, tokens| sum.checked_add(*tokens as u64))? != head.tokens {
        return None;
    }
    let mut segments = Vec::new();
    if whole {
        let mut ids = Vec::with_capacity(stretches.len());
        for tokens in &stretches {
            ids.push(from.numbers(*tokens, u32::from_le_bytes)?);
        }
        for ids in ids {
            let counted = from.numbers(ids.len(), |[counts]| counts != 0)?;
            segments.push(Arc::new(Segment { ids, counted }));
        }
        from.sealed()?;
    }
    (from.progress)(total, total);
    Some(TokenSet::of(segments, Sizes { len, counted, hash }, origins, head.report, head.work))
}

/// Tokens of the segments that rows of these lengths are read back to.
fn stretches(len: &[u32]) -> Vec<usize> {
    let mut stretches = Vec::new();
    let mut tokens = 0usize;
    for len in len {
        tokens = tokens.saturating_add(*len as usize);
        if tokens >= SEGMENT {
            stretches.push(std::mem::take(&mut tokens));
        }
    }
    stretches.extend((tokens > 0).then_some(tokens));
    stretches
}

/// An entry with the sum of what was read since the last seal.
struct In<'p> {
    file: File,
    sha: Sha256,
    held: Vec<u8>,
    done: u64,
    total: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl In<'_> {
    fn exact(&mut self, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact(bytes).ok()?;
        self.sha.update(&*bytes);
        self.done = self.done.saturating_add(bytes.len() as u64);
        (self.progress)(self.done.min(self.total.saturating_sub(1)), self.total);
        Some(())
    }

    fn each<const N: usize>(&mut self, count: usize, mut take: impl FnMut([u8; N])) -> Option<()> {
        let mut held = std::mem::take(&mut self.held);
        let mut left = count;
        while left > 0 {
            let some = left.min(ENTRY_BUFFER / N);
            let bytes = held.get_mut(..some * N)?;
            self.exact(bytes)?;
            bytes.as_chunks::<N>().0.iter().for_each(|number| take(*number));
            left -= some;
        }
        self.held = held;
        Some(())
    }

    fn numbers<const N: usize, T>(&mut self, count: usize, from: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let mut numbers = Vec::with_capacity(count);
        self.each(count, |bytes| numbers.push(from(bytes)))?;
        Some(numbers)
    }

    fn sealed(&mut self) -> Option<()> {
        let found: Sum = self.sha.finalize_reset().into();
        let mut sum: Sum = [0; 32];
        self.file.read_exact(&mut sum).ok()?;
        (sum == found).then_some(())
    }
}
