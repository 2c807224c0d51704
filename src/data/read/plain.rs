//! Plain text: rows are paragraphs.

use std::io::BufRead;
use std::path::Path;

use super::Content;
use crate::text::{Fault, Result};

/// Each run of lines that are not blank is a row; its lines stay as they are, joined by `\n`.
pub(super) fn paragraphs(path: &Path, mut reader: impl BufRead, keep: &mut dyn FnMut(u64, Content)) -> Result<()> {
    let mut row = String::new();
    let (mut first, mut line) = (1, 0);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let n = reader.read_until(b'\n', &mut bytes).map_err(|e| Fault::io("read", path, &e))?;
        line += 1;
        let text = std::str::from_utf8(&bytes).map_err(|e| not_utf8(path, &bytes, line, 1, e.valid_up_to()))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if n == 0 || text.trim().is_empty() {
            if !row.is_empty() {
                keep(first, Content::Text(std::mem::take(&mut row)));
            }
            if n == 0 {
                return Ok(());
            }
            continue;
        }
        if row.is_empty() {
            first = line;
        } else {
            row.push('\n');
        }
        row.push_str(text);
    }
}

/// A fault at the byte `at` of `bytes`, which begin at (`line`, `column`).
pub(super) fn not_utf8(path: &Path, bytes: &[u8], line: u64, column: u64, at: usize) -> Fault {
    let (line, column) = super::json::position(bytes, at, line, column);
    let byte = bytes.get(at).copied().unwrap_or(0);
    Fault::new("data.not_utf8", format!("the byte 0x{byte:02X} is not UTF-8 text"))
        .at_line(path, line, Some(column))
        .help("save the file as UTF-8")
}
