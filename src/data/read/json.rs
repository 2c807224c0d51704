//! JSON rows with the place of each.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::plain::not_utf8;
use super::{Content, Settings};
use crate::data::format::{Wrong, content};
use crate::text::{Fault, Result};

/// Line and column of the byte `at` of `bytes`, which begin at (`line`, `column`); columns count characters.
pub(super) fn position(bytes: &[u8], at: usize, line: u64, column: u64) -> (u64, u64) {
    let before = bytes.get(..at).unwrap_or(bytes);
    let starts = |byte: &u8| byte & 0xC0 != 0x80;
    let characters = |bytes: &[u8]| bytes.iter().filter(|byte| starts(byte)).count() as u64;
    match before.iter().rposition(|byte| *byte == b'\n') {
        None => (line, column + characters(before)),
        Some(last) => {
            let newlines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
            (line + newlines, 1 + characters(&before[last + 1..]))
        }
    }
}

/// A stretch of a file and where it begins.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    line: u64,
    column: u64,
}

impl Stretch<'_> {
    fn fault(&self, at: usize, code: &'static str, message: impl Into<String>) -> Fault {
        let (line, column) = position(self.bytes, at, self.line, self.column);
        Fault::new(code, message).at_line(self.path, line, Some(column))
    }

    /// serde_json's words at the place they are about.
    fn syntax(&self, error: &serde_json::Error) -> Fault {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or(&words);
        let line_start = match error.line().checked_sub(2) {
            None => 0,
            Some(n) => self.bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(n).map_or(0, |(i, _)| i + 1),
        };
        let at = (line_start + error.column().saturating_sub(1)).min(self.bytes.len());
        self.fault(at, "data.bad_json", format!("this is not JSON: {words}"))
    }

    /// A row of the wrong form, at the field it is about.
    fn wrong(&self, wrong: Wrong) -> Fault {
        let at = wrong.field.and_then(|field| find_key(self.bytes, &field)).unwrap_or(0);
        let mut fault = self.fault(at, "data.bad_row", wrong.message);
        fault.notes.extend(wrong.note);
        fault.help = wrong.help;
        fault
    }

    /// The row that the stretch is.
    fn row(&self, object: Map<String, Value>, settings: &Settings) -> Result<Content> {
        content(object, settings).map_err(|wrong| self.wrong(wrong))
    }
}

/// Where `"key":` first stands.
fn find_key(bytes: &[u8], key: &str) -> Option<usize> {
    let quoted = serde_json::to_vec(key).ok()?;
    let is_key = |at: &usize| {
        let after = bytes.get(at + quoted.len()..).unwrap_or(&[]);
        after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
    };
    bytes.windows(quoted.len()).enumerate().filter(|(_, w)| *w == quoted).map(|(at, _)| at).find(is_key)
}

/// One object a line; blank lines are nothing.
pub(super) fn lines(
    path: &Path,
    mut reader: impl BufRead,
    settings: &Settings,
    keep: &mut dyn FnMut(u64, Content),
) -> Result<()> {
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(|e| Fault::io("read", path, &e))? == 0 {
            return Ok(());
        }
        line += 1;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        while bytes.pop_if(|last| matches!(last, b'\n' | b'\r')).is_some() {}
        let here = Stretch { path, bytes: &bytes, line, column: 1 };
        let text = std::str::from_utf8(&bytes).map_err(|e| not_utf8(path, &bytes, line, 1, e.valid_up_to()))?;
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let fault = here.syntax(&error).note("one JSON object a line is expected");
            match error.is_eof() {
                true => fault.note("the object does not end on its line: a file of objects over several lines must be an array, `[{…}, {…}]`"),
                false => fault,
            }
        })?;
        match value {
            Value::Object(object) => keep(line, here.row(object, settings)?),
            other => {
                let fault =
                    here.fault(0, "data.bad_row", format!("a row must be an object, and this is {}", kind_of(&other)));
                return Err(fault.note("one JSON object a line is expected"));
            }
        }
    }
}

/// One array of objects.
pub(super) fn array(path: &Path, bytes: &[u8], settings: &Settings, keep: &mut dyn FnMut(u64, Content)) -> Result<()> {
    let whole = Stretch { path, bytes, line: 1, column: 1 };
    if let Err(e) = std::str::from_utf8(bytes) {
        return Err(not_utf8(path, bytes, 1, 1, e.valid_up_to()));
    }
    let skip = |at: usize| at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let expected = |at: usize, what: &str| {
        let message = match bytes.get(at) {
            None => format!("the file ends inside its array, where {what} is expected"),
            Some(_) => {
                let found = std::str::from_utf8(&bytes[at..]).ok().and_then(|rest| rest.chars().next()).unwrap_or(' ');
                format!("{what} is expected here, and there is `{found}`")
            }
        };
        whole.fault(at, "data.bad_json", message).note("a JSON array of objects is expected: `[{…}, {…}]`")
    };
    // Positions are counted on from row to row, so that a large file is walked once.
    let (mut counted, mut line, mut column) = (0, 1, 1);
    let mut at = skip(0) + 1;
    let mut first = true;
    loop {
        at = skip(at);
        match bytes.get(at) {
            Some(b']') if first => {
                at += 1;
                break;
            }
            Some(b'{') => {}
            _ => return Err(expected(at, "an object")),
        }
        (line, column) = position(&bytes[counted..], at - counted, line, column);
        counted = at;
        let mut values = serde_json::Deserializer::from_slice(&bytes[at..]).into_iter::<Map<String, Value>>();
        let object = values.next();
        let end = at + values.byte_offset();
        match object {
            Some(Ok(object)) => {
                let here = Stretch { path, bytes: &bytes[at..end], line, column };
                keep(line, here.row(object, settings)?);
            }
            Some(Err(error)) => return Err(Stretch { path, bytes: &bytes[at..], line, column }.syntax(&error)),
            None => return Err(expected(at, "an object")),
        }
        first = false;
        at = skip(end);
        match bytes.get(at) {
            Some(b',') => at += 1,
            Some(b']') => {
                at += 1;
                break;
            }
            _ => return Err(expected(at, "`,` or `]`")),
        }
    }
    at = skip(at);
    match bytes.get(at) {
        None => Ok(()),
        Some(_) => Err(expected(at, "the end of the file")),
    }
}

/// A JSON value's kind, with its article.
pub(in crate::data) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
