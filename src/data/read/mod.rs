//! Files to rows.
//!
//! JSON comes as one array of objects or as one object a line (JSON Lines); the first character says which, whatever the
//! file is called. Plain text is read under `format=text` alone: a file called `.txt` or `.md`, or one of another name
//! that does not begin as JSON does. Its rows are paragraphs, separated by blank lines.
//!
//! A file of lines is read line by line, so its text is never in memory as a whole; an array is, until its last row is
//! made.

pub(super) mod json;
mod plain;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{Content, Format, Origin, Row, Rows, Settings};
use crate::text::{Fault, Result};

/// Reads every file in the order given.
///
/// # Errors
/// At file, line and column, with what was expected: `file.*`, `data.bad_json`, `data.bad_row`, `data.not_utf8`,
/// `data.unknown_file`; `data.empty` where a file holds no row.
pub fn read(settings: &Settings) -> Result<Rows> {
    let mut rows = Rows { files: settings.paths.clone(), rows: Vec::new() };
    if settings.paths.is_empty() {
        return Err(Fault::new("data.no_files", "there is no file to read rows from"));
    }
    for (file, path) in settings.paths.iter().enumerate() {
        let before = rows.rows.len();
        let file = u32::try_from(file).unwrap_or(u32::MAX);
        let mut keep = |line: u64, content: Content| rows.rows.push(Row { origin: Origin { file, line }, content });
        read_file(path, settings, &mut keep)?;
        if rows.rows.len() == before {
            return Err(Fault::new("data.empty", format!("`{}` holds no rows", path.display())).at(path));
        }
    }
    rows.rows.shrink_to_fit();
    Ok(rows)
}

/// What a file holds, judged by its name and its beginning.
enum Kind {
    Array,
    Lines,
    Plain,
}

fn read_file(path: &Path, settings: &Settings, keep: &mut dyn FnMut(u64, Content)) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io("read", path, &e);
    let meta = std::fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        let fault = Fault::new("data.unknown_file", format!("`{}` is a folder, not a file of rows", path.display()));
        return Err(fault.at(path).help("name its files: `[\"folder/a.jsonl\" \"folder/b.jsonl\"]`"));
    }
    if !meta.is_file() {
        let fault = Fault::new("data.unknown_file", format!("`{}` is a pipe or a device", path.display()));
        return Err(fault.at(path).note("rows are read more than once, so they have to lie in a file"));
    }
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(failed)?);
    let head = reader.fill_buf().map_err(failed)?;
    let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let kind = kind(path, &head[mark..], settings.format)?;
    reader.consume(mark);
    match kind {
        Kind::Lines => json::lines(path, reader, settings, keep),
        Kind::Plain => plain::paragraphs(path, reader, keep),
        Kind::Array => {
            let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
            reader.read_to_end(&mut bytes).map_err(failed)?;
            json::array(path, &bytes, settings, keep)
        }
    }
}

const AS_LINES: &str =
    "write it as JSON Lines first, for example with pandas: `frame.to_json(path, orient=\"records\", lines=True)`";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

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
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    let extension = extension.as_deref().unwrap_or("");
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
