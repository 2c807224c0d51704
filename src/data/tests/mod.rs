mod batches;
mod kept;
mod masks;
mod reading;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::text::{Fault, Result};

/// Byte tokens, with the special tokens of the ChatML dialect as in a model that speaks it: 259 begins a turn, 260 ends
/// one and is the end-of-text token. It adds no beginning-of-text token.
fn chatml() -> Tokenizer {
    let bytes = Tokenizer::bytes().unwrap();
    let mut json: Value = serde_json::from_slice(&bytes.to_json()).unwrap();
    for (id, text) in [(259, "<|im_start|>"), (260, "<|im_end|>")] {
        let mut token = json["added_tokens"][0].clone();
        token["id"] = json!(id);
        token["content"] = json!(text);
        json["added_tokens"].as_array_mut().unwrap().push(token);
    }
    json["post_processor"] = Value::Null;
    Tokenizer::from_files(TokenizerFiles {
        tokenizer_json: TokenizerJson::Bytes(serde_json::to_vec(&json).unwrap()),
        tokenizer_config: Some(json!({"eos_token": "<|im_end|>", "bos_token": null})),
        special_tokens_map: None,
        chat_template: Some(ChatTemplate::builtin("chatml").unwrap().to_owned()),
    })
    .unwrap()
}

/// A file that lives as long as the test.
fn file(name: &str, text: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// One row, parsed.
#[derive(Debug)]
struct Row {
    origin: Origin,
    content: Content,
}

/// Every row of the files, parsed in their order.
fn read(settings: &Settings) -> Result<Vec<Row>> {
    let mut reader = super::read::Reader::new(settings)?;
    let (mut window, mut rows) = (super::read::Window::default(), Vec::new());
    while reader.fill(&mut window)? {
        for at in 0..window.len() {
            rows.push(Row { origin: window.origin(at), content: window.content(at, settings)? });
        }
    }
    Ok(rows)
}

fn read_text(name: &str, text: impl AsRef<[u8]>, format: Format) -> Result<Vec<Row>> {
    let (_folder, path) = file(name, text);
    read(&Settings::new(vec![path], format))
}

/// Rows of a JSON Lines text, tokenised with a template or without any.
fn encoded_with(
    lines: &str,
    settings: &Settings,
    tokenizer: &Tokenizer,
    template: Option<&ChatTemplate>,
) -> Result<TokenSet> {
    let (_folder, path) = file("rows.jsonl", lines);
    let settings = Settings { paths: vec![path], ..settings.clone() };
    Ok(tokenise(&settings, tokenizer, template, &mut |_, _| {})?.0)
}

fn encoded(lines: &str, settings: &Settings, tokenizer: &Tokenizer) -> Result<TokenSet> {
    encoded_with(lines, settings, tokenizer, ChatTemplate::choose(None, tokenizer)?.as_ref())
}

/// A row as text, what counts in brackets.
fn marked(set: &TokenSet, tokenizer: &Tokenizer) -> String {
    let (ids, counted) = (set.ids(0), set.counted(0));
    let mut text = String::new();
    let mut at = 0;
    while at < ids.len() {
        let end = counted[at..].iter().position(|c| *c != counted[at]).map_or(ids.len(), |n| at + n);
        let run = tokenizer.show(&ids[at..end]).unwrap();
        text.push_str(&if counted[at] { format!("[{run}]") } else { run });
        at = end;
    }
    text
}

fn settings(format: Format) -> Settings {
    Settings::new(Vec::new(), format)
}

/// Line and column of a fault, and its code.
fn spot(fault: &Fault) -> (&'static str, Option<u64>, Option<u64>) {
    let spot = fault.spot.as_ref();
    (fault.code, spot.and_then(|s| s.line), spot.and_then(|s| s.column))
}
