//! Plain text: rows are paragraphs.

use std::path::Path;

use super::{Kind, Open, Origin, Window};
use crate::text::{Fault, Result};

impl Open<'_> {
    /// The next run of lines that are not blank; its lines stay as they are, joined by `\n`.
    pub(super) fn paragraph(&mut self, window: &mut Window) -> Result<bool> {
        let start = window.text.len();
        let mut first = None;
        loop {
            let end = window.text.len();
            if first.is_some() {
                window.text.push(b'\n');
            }
            let from = window.text.len();
            let n = self.read_line(&mut window.text)?;
            let bytes = window.text.get(from..).unwrap_or_default();
            let text =
                std::str::from_utf8(bytes).map_err(|e| not_utf8(self.path, bytes, self.line, 1, e.valid_up_to()))?;
            let text = text.trim_end_matches(['\n', '\r']);
            if !text.trim().is_empty() {
                let to = from + text.len();
                window.text.truncate(to);
                first.get_or_insert(self.line);
                self.line += 1;
                continue;
            }
            self.line += 1;
            window.text.truncate(end);
            match first {
                Some(line) => {
                    window.row(start, Origin { file: self.file, line }, 1, Kind::Plain);
                    return Ok(true);
                }
                None if n == 0 => return Ok(false),
                None => {}
            }
        }
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
