//! JSON rows with the place of each.

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
pub(super) struct Stretch<'a> {
    pub path: &'a Path,
    pub bytes: &'a [u8],
    pub line: u64,
    pub column: u64,
}

impl<'a> Stretch<'a> {
    pub fn fault(&self, at: usize, code: &'static str, message: impl Into<String>) -> Fault {
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

    /// The stretch as text.
    pub fn text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes)
            .map_err(|e| not_utf8(self.path, self.bytes, self.line, self.column, e.valid_up_to()))
    }

    /// The row that the stretch is: a line that holds one object.
    pub fn line(&self, settings: &Settings) -> Result<Content> {
        let value: Value = serde_json::from_str(self.text()?).map_err(|error| {
            let fault = self.syntax(&error).note("one JSON object a line is expected");
            match error.is_eof() {
                true => fault.note("the object does not end on its line: a file of objects over several lines must be an array, `[{…}, {…}]`"),
                false => fault,
            }
        })?;
        match value {
            Value::Object(object) => self.row(object, settings),
            other => {
                let fault =
                    self.fault(0, "data.bad_row", format!("a row must be an object, and this is {}", kind_of(&other)));
                Err(fault.note("one JSON object a line is expected"))
            }
        }
    }

    /// The row that the stretch is: an object of an array.
    pub fn element(&self, settings: &Settings) -> Result<Content> {
        match serde_json::from_str::<Map<String, Value>>(self.text()?) {
            Ok(object) => self.row(object, settings),
            Err(error) => Err(self.syntax(&error)),
        }
    }

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
