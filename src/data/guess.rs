//! What a file of rows seems to hold, from its first row: for a pipeline that is being written.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::Format;
use crate::text::{Fault, Result};

/// A format, with the columns that `format=completion` and `format=text` would need named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guess {
    pub format: Format,
    /// `prompt=`, `completion=` or `text=` with the column's name, where it is not the default one.
    pub columns: Vec<(&'static str, String)>,
}

/// Columns that are given, with those that are learnt, as data sets name them.
const PAIRS: [(&str, &str); 8] = [
    ("prompt", "completion"),
    ("prompt", "response"),
    ("question", "answer"),
    ("input", "output"),
    ("query", "response"),
    ("source", "target"),
    ("instruction", "response"),
    ("context", "answer"),
];
const TEXTS: [&str; 4] = ["text", "content", "document", "body"];
/// A first row is not longer than this.
const HEAD: u64 = 4 << 20;

/// Looks at the first row. None where it is of no form that is known. Errors: the file cannot be read.
pub fn guess(path: &Path) -> Result<Option<Guess>> {
    let fault = |e: &std::io::Error| Fault::io("read", path, e);
    let file = File::open(path).map_err(|e| fault(&e))?;
    let mut head = Vec::new();
    BufReader::new(file).take(HEAD).read_to_end(&mut head).map_err(|e| fault(&e))?;
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    let plain = |columns| Some(Guess { format: Format::Text, columns });
    let row = match head.first() {
        Some(b'{') => head,
        Some(b'[') => head.get(1..).unwrap_or_default(),
        // Anything else that is text can be learnt as text.
        Some(_) => return Ok(plain(Vec::new()).filter(|_| !head.contains(&0))),
        None => return Ok(None),
    };
    let first = serde_json::Deserializer::from_slice(row).into_iter::<Value>().next();
    let Some(Ok(Value::Object(row))) = first else { return Ok(None) };
    let is_text = |key: &str| row.get(key).is_some_and(Value::is_string);
    let is_list = |key: &str| row.get(key).is_some_and(Value::is_array);
    let of = |format| Some(Guess { format, columns: Vec::new() });
    if is_list("messages") || is_list("conversations") {
        return Ok(of(Format::Chat));
    }
    if is_list("input_ids") {
        return Ok(of(Format::Tokens));
    }
    if is_text("instruction") && is_text("output") {
        return Ok(of(Format::Alpaca));
    }
    if let Some((given, learnt)) = PAIRS.into_iter().find(|(given, learnt)| is_text(given) && is_text(learnt)) {
        let named = [("prompt", given), ("completion", learnt)];
        let columns = named.into_iter().filter(|(key, name)| key != name).map(|(key, name)| (key, name.to_owned()));
        return Ok(Some(Guess { format: Format::Completion, columns: columns.collect() }));
    }
    let only = row.iter().filter(|(_, value)| value.is_string()).map(|(key, _)| key.as_str());
    let text =
        TEXTS.into_iter().find(|key| is_text(key)).or_else(|| Some(only).filter(|o| o.clone().count() == 1)?.next());
    Ok(text.and_then(|key| plain(if key == "text" { Vec::new() } else { vec![("text", key.to_owned())] })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Guess> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        guess(file.path()).expect("readable")
    }

    #[test]
    fn the_first_row_tells() {
        let format = |text: &str| of(text).map(|guess| guess.format);
        assert_eq!(format(r#"[{"instruction": "a", "input": "", "output": "b"}, {"#), Some(Format::Alpaca));
        assert_eq!(format("\u{feff} {\"messages\": []}\n{"), Some(Format::Chat));
        assert_eq!(format(r#"{"conversations": [], "id": 3}"#), Some(Format::Chat));
        assert_eq!(format(r#"{"input_ids": [1, 2]}"#), Some(Format::Tokens));
        assert_eq!(format("Once upon a time."), Some(Format::Text));
        assert_eq!(format(r#"{"a": 1}"#), None);
        assert_eq!(format(r#"[1, 2]"#), None);
        assert_eq!(format("{broken"), None);
        assert_eq!(format(""), None);
        assert_eq!(format("PK\u{3}\u{0}\u{0}"), None);
    }

    #[test]
    fn columns_of_other_names_are_told() {
        let columns = |text: &str| of(text).map(|guess| guess.columns).unwrap_or_default();
        assert!(columns(r#"{"prompt": "a", "completion": "b"}"#).is_empty());
        let named = [("prompt", "question".to_owned()), ("completion", "answer".to_owned())];
        assert_eq!(columns(r#"{"question": "a", "answer": "b"}"#), named);
        assert_eq!(columns(r#"{"prompt": "a", "response": "b"}"#), [("completion", "response".to_owned())]);
        assert_eq!(columns(r#"{"content": "a", "id": 3}"#), [("text", "content".to_owned())]);
        assert_eq!(columns(r#"{"story": "a", "id": 3}"#), [("text", "story".to_owned())]);
        assert!(columns(r#"{"text": "a"}"#).is_empty());
    }
}
