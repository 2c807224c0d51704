//! One array of objects, an object at a time.

use std::io::BufRead;

use super::json::{Stretch, position};
use super::plain::not_utf8;
use super::{Kind, Open, Origin, Window};
use crate::text::{Fault, Result};

/// How far an array has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before its `[`.
    Before,
    /// After its `[`.
    First,
    /// After an object.
    Later,
    /// After its `]`.
    After,
}

impl Open<'_> {
    /// The next object of the array. One that cannot be an object ends where that shows; its parser will say so.
    pub(super) fn element(&mut self, window: &mut Window) -> Result<bool> {
        if self.stage == Stage::Before {
            self.skip()?;
            self.step(1);
            self.stage = Stage::First;
        }
        match (self.stage, self.skip()?) {
            (Stage::After, _) => return Ok(false),
            (Stage::First | Stage::Later, Some(b']')) => {
                self.step(1);
                self.stage = Stage::After;
                return match self.skip()? {
                    None => Ok(false),
                    Some(_) => Err(self.expected("the end of the file")?),
                };
            }
            (Stage::Later, Some(b',')) => self.step(1),
            (Stage::Later, _) => return Err(self.expected("`,` or `]`")?),
            _ => {}
        }
        if self.skip()? != Some(b'{') {
            return Err(self.expected("an object")?);
        }
        self.stage = Stage::Later;
        let (start, origin, column) = (window.text.len(), Origin { file: self.file, line: self.line }, self.column);
        let mut scan = Scan::default();
        loop {
            let bytes = self.source.fill_buf().map_err(|e| Fault::io("read", self.path, &e))?;
            let end = scan.end(bytes);
            let n = end.unwrap_or(bytes.len());
            window.text.extend_from_slice(&bytes[..n]);
            self.source.consume(n);
            if end.is_some() || n == 0 {
                break;
            }
        }
        let object = window.text.get(start..).unwrap_or_default();
        (self.line, self.column) = position(object, object.len(), self.line, self.column);
        window.row(start, origin, column, Kind::Array);
        Ok(true)
    }

    /// The next byte that is not white space, left where it is; none at the end of the file.
    fn skip(&mut self) -> Result<Option<u8>> {
        loop {
            let bytes = self.source.fill_buf().map_err(|e| Fault::io("read", self.path, &e))?;
            let Some(first) = bytes.first().copied() else { return Ok(None) };
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            if first == b'\n' {
                self.source.consume(1);
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.step(1);
            }
        }
    }

    /// Passes over bytes that are characters of one line.
    fn step(&mut self, bytes: usize) {
        self.source.consume(bytes);
        self.column += bytes as u64;
    }

    /// The fault that something else was to come here.
    fn expected(&mut self, what: &str) -> Result<Fault> {
        // As many bytes as the character here has.
        let mut found = Vec::new();
        while let Some(byte) = self.source.fill_buf().map_err(|e| Fault::io("read", self.path, &e))?.first().copied() {
            found.push(byte);
            self.source.consume(1);
            match std::str::from_utf8(&found) {
                Ok(_) => break,
                Err(e) if e.error_len().is_some() => {
                    return Ok(not_utf8(self.path, &found, self.line, self.column, 0));
                }
                Err(_) => {}
            }
        }
        let message = match found.is_empty() {
            true => format!("the file ends inside its array, where {what} is expected"),
            false => format!("{what} is expected here, and there is `{}`", String::from_utf8_lossy(&found)),
        };
        let here = Stretch { path: self.path, bytes: &found, line: self.line, column: self.column };
        Ok(here.fault(0, "data.bad_json", message).note("a JSON array of objects is expected: `[{…}, {…}]`"))
    }
}

/// Looks for the end of a JSON value, as its bytes come.
#[derive(Default)]
struct Scan {
    /// What closes the brackets that are open.
    closers: Vec<u8>,
    quoted: bool,
    escaped: bool,
}

impl Scan {
    /// Bytes of `bytes` up to the value's end, or to where it shows that it is none; none: it goes on.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().copied().enumerate() {
            if self.quoted {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.quoted = false,
                    // A text never holds these as they are.
                    0..0x20 => return Some(at + 1),
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.quoted = true,
                b'{' => self.closers.push(b'}'),
                b'[' => self.closers.push(b']'),
                b'}' | b']' if self.closers.pop() != Some(byte) || self.closers.is_empty() => return Some(at + 1),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_its_bracket_or_at_its_first_mistake() {
        let end = |text: &str| Scan::default().end(text.as_bytes());
        assert_eq!(end(r#"{"a": "}\"", "b": [{}]}, {"#), Some(23));
        assert_eq!(end(r#"{"a": [1}, {"#), Some(9));
        assert_eq!(end("{\"a\": \"x\ny"), Some(9));
        assert_eq!(end(r#"{"a": [{"b": "#), None);
        // However the bytes come.
        let (text, mut scan) = (r#"{"a\\": "\"}"} x"#.as_bytes(), Scan::default());
        let found = text.iter().position(|byte| scan.end(&[*byte]).is_some());
        assert_eq!(found, Some(13));
    }
}
