//! Source texts and places in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which text of [`Sources`] a span lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A half-open range of bytes of one source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    pub source: SourceId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(source: SourceId, start: usize, end: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { source, start: clamp(start), end: clamp(end) }
    }

    /// The smallest span over both; both lie in one source.
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A text with the name by which a person knows it (`finetune.tp`, `<stdin>`, `stdlib/stages.tp`).
#[derive(Debug, Clone)]
pub struct Source {
    pub name: String,
    /// The folder that path literals of this text are relative to.
    pub folder: PathBuf,
    pub text: Arc<str>,
    /// Byte offset of every line's start, so that a place is found without reading the text again.
    line_starts: Arc<[u32]>,
}

impl Source {
    fn new(name: String, folder: &Path, text: Arc<str>) -> Self {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| offset(at + 1))).collect();
        Source { name, folder: folder.to_owned(), text, line_starts }
    }

    /// Another text under the same name.
    pub(super) fn with_text(&self, text: impl Into<Arc<str>>) -> Self {
        Source::new(self.name.clone(), &self.folder, text.into())
    }

    /// The line, from 0, that holds a byte, and the byte at which that line starts.
    pub(super) fn line_of(&self, offset: usize) -> (usize, usize) {
        let after = self.line_starts.partition_point(|start| *start as usize <= offset);
        let line = after.saturating_sub(1);
        (line, self.line_starts.get(line).map_or(0, |start| *start as usize))
    }

    /// The bytes of some lines, both counted from 0, with their line breaks.
    pub(super) fn lines(&self, first: usize, last: usize) -> std::ops::Range<usize> {
        let start = |line: usize| self.line_starts.get(line).map_or(self.text.len(), |start| *start as usize);
        start(first)..start(last.saturating_add(1))
    }

    /// Line and column of a byte, both from 1, the column in characters.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let (line, start) = self.line_of(offset);
        (line + 1, self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1)
    }
}

/// Every text that a span may point into.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    pub fn add(&mut self, name: impl Into<String>, folder: &Path, text: impl Into<Arc<str>>) -> SourceId {
        let id = SourceId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(Source::new(name.into(), folder, text.into()));
        id
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.list[id.0 as usize]
    }

    /// The text under a span; empty where the span lies outside it.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.source).text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Line and column of a span's start, both from 1, columns in characters.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        self.get(span.source).place(span.start as usize)
    }

    /// Line and column just behind a span's last character.
    pub fn end_line_column(&self, span: Span) -> (usize, usize) {
        self.get(span.source).place(span.end as usize)
    }
}
