//! Files to rows, a window of them at a time.
//!
//! JSON comes as one array of objects or as one object a line (JSON Lines); the first character says which, whatever the
//! file is called. Plain text is read under `format=text` alone: a file called `.txt` or `.md`, or one of another name
//! that does not begin as JSON does. Its rows are paragraphs, separated by blank lines.
//!
//! A [`Reader`] only finds where rows begin and end; a row is parsed by whoever works on it, in parallel with others
//! ([`Window::content`]). No file is in memory as a whole, an array neither: [`WINDOW`] bytes are, and the longest row.

mod array;
pub(super) mod json;
mod plain;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Content, Format, Origin, Settings};
use crate::text::{Fault, Result};

/// Bytes of rows that are worked on at a time, and past which no further row is taken in: enough to keep every core
/// busy, little beside anything else that training holds.
pub(super) const WINDOW: usize = 1 << 20;
/// Bytes that a window has room for at once, so that its last row seldom makes it move.
pub(super) const ROOM: usize = WINDOW + (1 << 16);
/// Rows that are worked on at a time, however short.
const MOST_ROWS: usize = 4096;
/// Bytes read from a file at once.
pub(super) const READ_BUFFER: usize = 1 << 18;

/// Rows as they lie in their files, some at a time.
#[derive(Default)]
pub(super) struct Window {
    text: Vec<u8>,
    rows: Vec<Raw>,
}

/// One row, not parsed yet.
struct Raw {
    origin: Origin,
    column: u64,
    text: Range<usize>,
    kind: Kind,
}

impl Window {
    /// Rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes of a row.
    pub fn bytes_of(&self, row: usize) -> usize {
        self.rows.get(row).map_or(0, |raw| raw.text.len())
    }

    fn is_full(&self) -> bool {
        self.text.len() >= WINDOW || self.rows.len() >= MOST_ROWS
    }

    /// Empties it and makes room for `bytes`, as far as a window goes.
    fn clear(&mut self, bytes: u64) {
        self.rows.clear();
        self.text.clear();
        // A row longer than a window is not paid for again and again.
        self.text.shrink_to(ROOM);
        self.text.reserve_exact(usize::try_from(bytes).unwrap_or(ROOM).min(ROOM));
    }

    /// Takes what was appended to the text since `start` as a row.
    fn row(&mut self, start: usize, origin: Origin, column: u64, kind: Kind) {
        self.rows.push(Raw { origin, column, text: start..self.text.len(), kind });
    }

    pub fn origin(&self, row: usize) -> Origin {
        self.rows.get(row).map_or(Origin { file: 0, line: 0 }, |raw| raw.origin)
    }

    /// Parses a row.
    ///
    /// # Errors
    /// At file, line and column, with what was expected: `data.bad_json`, `data.bad_row`, `data.not_utf8`.
    pub fn content(&self, row: usize, settings: &Settings) -> Result<Content> {
        let Some(raw) = self.rows.get(row) else { return Ok(Content::Text(String::new())) };
        let path = settings.path_of(raw.origin);
        let bytes = self.text.get(raw.text.clone()).unwrap_or_default();
        let stretch = json::Stretch { path, bytes, line: raw.origin.line, column: raw.column };
        match raw.kind {
            Kind::Lines => stretch.line(settings),
            Kind::Array => stretch.element(settings),
            Kind::Plain => stretch.text().map(|text| Content::Text(text.to_owned())),
        }
    }
}

/// Reads the files of a data set in the order given.
pub(super) struct Reader<'a> {
    settings: &'a Settings,
    open: Option<Open<'a>>,
    /// Files opened so far.
    opened: usize,
    /// Told once the rows before it were given.
    fault: Option<Fault>,
    /// SHA-256 of every file that was read to its end.
    digests: Vec<[u8; 32]>,
    /// Bytes of those files.
    done: u64,
    /// Bytes of all files.
    total: u64,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// `data.no_files`.
    pub fn new(settings: &'a Settings) -> Result<Self> {
        if settings.paths.is_empty() {
            return Err(Fault::new("data.no_files", "there is no file to read rows from"));
        }
        // A file that is not there is told when its turn comes.
        let lengths = settings.paths.iter().map(|path| std::fs::metadata(path).map_or(0, |meta| meta.len()));
        let total = lengths.fold(0, u64::saturating_add);
        Ok(Reader { settings, open: None, opened: 0, fault: None, digests: Vec::new(), done: 0, total })
    }

    /// Replaces what is in a window by the next rows; none at the end of the last file.
    ///
    /// # Errors
    /// At file, line and column, with what was expected: `file.*`, `data.bad_json`, `data.not_utf8`,
    /// `data.unknown_file`; `data.empty` where a file holds no row. What is wrong in the middle of a window is told by
    /// the next call, so that faults come in the order of the file.
    pub fn fill(&mut self, window: &mut Window) -> Result<bool> {
        window.clear(self.total);
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        while !window.is_full() {
            match self.next(window) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) if window.rows.is_empty() => return Err(fault),
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
        Ok(!window.rows.is_empty())
    }

    fn next(&mut self, window: &mut Window) -> Result<bool> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                none => {
                    let Some(path) = self.settings.paths.get(self.opened) else { return Ok(false) };
                    let file = u32::try_from(self.opened).unwrap_or(u32::MAX);
                    self.opened += 1;
                    none.insert(Open::file(path, file, self.settings.format)?)
                }
            };
            if open.row(window)? {
                open.rows = true;
                return Ok(true);
            }
            if !open.rows {
                let path = open.path;
                return Err(Fault::new("data.empty", format!("`{}` holds no rows", path.display())).at(path));
            }
            if let Some(open) = self.open.take() {
                let tap = open.source.into_inner();
                self.done = self.done.saturating_add(tap.read);
                self.digests.push(tap.sha.finalize().into());
            }
        }
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.done.saturating_add(self.open.as_ref().map_or(0, |open| open.source.get_ref().read))
    }

    /// Bytes to be read.
    pub fn bytes(&self) -> u64 {
        self.total
    }

    /// SHA-256 of each file's bytes as they were read, once all of them were.
    pub fn into_digests(self) -> Vec<[u8; 32]> {
        self.digests
    }
}

/// What a file holds, judged by its name and its beginning.
#[derive(Clone, Copy)]
enum Kind {
    Array,
    Lines,
    Plain,
}

/// A file whose bytes are hashed as they are read.
struct Tap {
    file: File,
    sha: Sha256,
    read: u64,
}

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.sha.update(buffer.get(..n).unwrap_or_default());
        self.read = self.read.saturating_add(n as u64);
        Ok(n)
    }
}

/// A file that is being read.
struct Open<'a> {
    path: &'a Path,
    file: u32,
    kind: Kind,
    source: BufReader<Tap>,
    /// Where reading stands; columns count characters.
    line: u64,
    column: u64,
    /// How far an array has come.
    stage: array::Stage,
    /// A row was found.
    rows: bool,
}

impl<'a> Open<'a> {
    fn file(path: &'a Path, file: u32, format: Format) -> Result<Self> {
        let failed = |e: std::io::Error| Fault::io("read", path, &e);
        let meta = std::fs::metadata(path).map_err(failed)?;
        if meta.is_dir() {
            let fault =
                Fault::new("data.unknown_file", format!("`{}` is a folder, not a file of rows", path.display()));
            return Err(fault.at(path).help("name its files: `[\"folder/a.jsonl\" \"folder/b.jsonl\"]`"));
        }
        if !meta.is_file() {
            let fault = Fault::new("data.unknown_file", format!("`{}` is a pipe or a device", path.display()));
            return Err(fault.at(path).note("rows are read more than once, so they have to lie in a file"));
        }
        let tap = Tap { file: File::open(path).map_err(failed)?, sha: Sha256::new(), read: 0 };
        let mut source = BufReader::with_capacity(READ_BUFFER, tap);
        let head = source.fill_buf().map_err(failed)?;
        let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let kind = kind(path, &head[mark..], format)?;
        source.consume(mark);
        Ok(Open { path, file, kind, source, line: 1, column: 1, stage: array::Stage::Before, rows: false })
    }

    /// Appends the next row to a window; false where there is none.
    fn row(&mut self, window: &mut Window) -> Result<bool> {
        match self.kind {
            Kind::Lines => self.object_line(window),
            Kind::Plain => self.paragraph(window),
            Kind::Array => self.element(window),
        }
    }

    /// The next line of a file of lines that is not blank.
    fn object_line(&mut self, window: &mut Window) -> Result<bool> {
        let start = window.text.len();
        loop {
            window.text.truncate(start);
            if self.read_line(&mut window.text)? == 0 {
                return Ok(false);
            }
            let origin = Origin { file: self.file, line: self.line };
            self.line += 1;
            if window.text[start..].iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            while window.text.len() > start && window.text.pop_if(|last| matches!(last, b'\n' | b'\r')).is_some() {}
            window.row(start, origin, 1, Kind::Lines);
            return Ok(true);
        }
    }

    /// Appends a line with its end; 0 bytes: there is none.
    fn read_line(&mut self, text: &mut Vec<u8>) -> Result<usize> {
        self.source.read_until(b'\n', text).map_err(|e| Fault::io("read", self.path, &e))
    }
}

const AS_LINES: &str =
    "write it as JSON Lines first, for example with pandas: `frame.to_json(path, orient=\"records\", lines=True)`";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The end of a file's name, lower case, which has a say in what the file is taken for.
pub(super) fn extension(path: &Path) -> String {
    path.extension().map_or_else(String::new, |e| e.to_string_lossy().to_lowercase())
}

fn kind(path: &Path, head: &[u8], format: Format) -> Result<Kind> {
    let unknown = |what: &str| {
        Fault::new("data.unknown_file", format!("`{}` {what}", path.display())).at(path).note(
            "rows come as a JSON array of objects, as one JSON object a line, or as plain text with `format=text`",
        )
    };
    let magics: [(&[u8], &str); 5] = [
        (b"PAR1", "is a Parquet file"),
        (b"\x1F\x8B", "is compressed with gzip"),
        (b"\x28\xB5\x2F\xFD", "is compressed with zstd"),
        (b"PK\x03\x04", "is a zip archive"),
        (b"ARROW1", "is an Arrow file"),
    ];
    if let Some((_, what)) = magics.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(unknown(what).help(AS_LINES));
    }
    if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") {
        return Err(unknown("is UTF-16 text").help("save it as UTF-8"));
    }
    let extension = extension(path);
    let extension = extension.as_str();
    if matches!(extension, "csv" | "tsv" | "xlsx" | "parquet" | "arrow") {
        return Err(unknown("is a table").help(AS_LINES));
    }
    if format == Format::Text && matches!(extension, "txt" | "text" | "md" | "rst" | "tex") {
        return Ok(Kind::Plain);
    }
    let named_json = matches!(extension, "json" | "jsonl" | "ndjson");
    match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Ok(Kind::Array),
        Some(b'{') | None => Ok(Kind::Lines),
        Some(_) if named_json => Ok(Kind::Lines),
        Some(_) if format == Format::Text => Ok(Kind::Plain),
        Some(_) => Err(unknown("does not begin as JSON does, with `[` or `{`").help("`format=text` for plain text")),
    }
}
