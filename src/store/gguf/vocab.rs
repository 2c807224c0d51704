//! The tokenizer that a GGUF carries, as raw data.

use super::{GgufFile, GgufValue};
use crate::text::{Fault, Result};

/// Vocabulary and settings of a tokenizer, from which one can be built.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufVocab {
    /// `gpt2` (byte-level BPE) or `llama` (SentencePiece).
    pub model: String,
    /// Name of the pre-tokenizer: `llama-bpe`, `smollm`.
    pub pre: Option<String>,
    pub tokens: Vec<String>,
    /// SentencePiece's log-probabilities; empty or one a token.
    pub scores: Vec<f32>,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; empty or one a token.
    pub token_types: Vec<u32>,
    /// `left right`, the earlier the sooner.
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub pad: Option<u32>,
    pub unk: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
    pub chat_template: Option<String>,
}

impl GgufVocab {
    /// None where the file carries no tokenizer.
    ///
    /// Errors: `gguf.tokenizer` where lists are of the wrong kind or length, or an id has no token.
    pub(in crate::store) fn read(file: &GgufFile) -> Result<Option<Self>> {
        let key = |name: &str| file.value(&format!("tokenizer.ggml.{name}"));
        let text = |name: &str| key(name).and_then(GgufValue::as_str).map(str::to_owned);
        let flag = |name: &str| key(name).and_then(GgufValue::as_bool);
        let Some(model) = text("model") else { return Ok(None) };
        let strings = |name: &str| list(file, name, |v| v.as_str().map(str::to_owned));
        let tokens = strings("tokens")?;
        let scores = list(file, "scores", |v| v.as_f64().map(|x| x as f32))?;
        let token_types = list(file, "token_type", |v| u32::try_from(v.as_u64()?).ok())?;
        for (name, n) in [("scores", scores.len()), ("token_type", token_types.len())] {
            if n != 0 && n != tokens.len() {
                return Err(wrong(file, &format!("`{name}` has {n} entries for {} tokens", tokens.len())));
            }
        }
        let id = |name: &str| -> Result<Option<u32>> {
            let Some(value) = key(&format!("{name}_token_id")) else { return Ok(None) };
            let id = value.as_u64().filter(|id| *id < tokens.len() as u64).and_then(|id| u32::try_from(id).ok());
            id.map(Some).ok_or_else(|| wrong(file, &format!("`{name}_token_id` is no token's")))
        };
        let (bos, eos, pad, unk) = (id("bos")?, id("eos")?, id("padding")?, id("unknown")?);
        Ok(Some(GgufVocab {
            model,
            pre: text("pre"),
            scores,
            token_types,
            merges: strings("merges")?,
            bos,
            eos,
            pad,
            unk,
            add_bos: flag("add_bos_token"),
            add_eos: flag("add_eos_token"),
            add_space_prefix: flag("add_space_prefix"),
            chat_template: file.value("tokenizer.chat_template").and_then(GgufValue::as_str).map(str::to_owned),
            tokens,
        }))
    }
}

fn list<T>(file: &GgufFile, name: &str, item: impl Fn(&GgufValue) -> Option<T>) -> Result<Vec<T>> {
    let Some(value) = file.value(&format!("tokenizer.ggml.{name}")) else { return Ok(Vec::new()) };
    let items = value.as_array().and_then(|items| items.iter().map(item).collect::<Option<Vec<T>>>());
    items.ok_or_else(|| wrong(file, &format!("`{name}` is not a list of the right kind")))
}

fn wrong(file: &GgufFile, what: &str) -> Fault {
    let path = file.path();
    Fault::new("gguf.tokenizer", format!("the tokenizer in `{}` cannot be read: {what}", path.display())).at(&path)
}
