//! Text to ids and back.
//!
//! However a tokenizer comes, it is one `tokenizer.json`: a Hugging Face folder has it, [`gguf`] writes it from a GGUF
//! vocabulary, and [`bytes`] is one of 256 tokens. What trains is therefore what can be saved beside the weights.

mod bytes;
mod core;
mod decoder;
mod gguf;
mod special;
mod stream;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::store::gguf::GgufVocab;
use crate::text::{Fault, Result};
use special::Special;

pub use decoder::Decoder;
pub use stream::TextStream;

/// Where a `tokenizer.json` is.
#[derive(Debug, Clone)]
pub enum TokenizerJson {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

/// The tokenizer's files of a Hugging Face folder.
#[derive(Debug, Clone)]
pub struct TokenizerFiles {
    pub tokenizer_json: TokenizerJson,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<Value>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<Value>,
    /// `chat_template.jinja`; it has precedence over the one in `tokenizer_config.json`.
    pub chat_template: Option<String>,
}

/// First byte of a token's text, and the byte after its last.
pub(super) type Offsets = (usize, usize);

/// A tokenizer with what surrounds it: special tokens, and the chat template of its model.
pub struct Tokenizer {
    /// Without post-processor, truncation and padding: those are ours to do.
    core: Arc<tokenizers::Tokenizer>,
    /// The same, but to which the text of a special token is text; made when first asked for.
    literal: OnceLock<tokenizers::Tokenizer>,
    /// The `tokenizer.json` as it was read or written.
    json: Vec<u8>,
    config: Value,
    special: Special,
    vocab_size: usize,
    chat_template: Option<String>,
    /// What a person should know about how it was read.
    notes: Vec<String>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} ids)", self.vocab_size)
    }
}

/// Up to so many ids a tokenizer works without a cache of words.
const FEW_IDS: usize = 1024;

impl Tokenizer {
    /// The tokenizer of a Hugging Face folder.
    ///
    /// # Errors
    /// `file.*` where the file cannot be read, `tokenizer.bad` where the `tokenizers` library refuses it.
    pub fn from_files(files: TokenizerFiles) -> Result<Self> {
        let (json, path) = match files.tokenizer_json {
            TokenizerJson::Bytes(bytes) => (bytes, None),
            TokenizerJson::Path(path) => {
                let bytes = std::fs::read(&path).map_err(|e| Fault::io("read", &path, &e))?;
                (bytes, Some(path))
            }
        };
        let located = |fault: Fault| match &path {
            Some(path) => fault.at(path).note(format!("read from `{}`", path.display())),
            None => fault,
        };
        let config = files.tokenizer_config.unwrap_or_else(|| json!({}));
        let chat_template = files.chat_template.or_else(|| template_of(&config));
        Self::build(json, config, files.special_tokens_map.as_ref(), chat_template, 0, Vec::new()).map_err(located)
    }

    /// The tokenizer of a GGUF file. A pre-tokenizer that is not known is replaced by GPT-2's, and [`Self::notes`] says so.
    ///
    /// # Errors
    /// `tokenizer.bad` for a vocabulary that is no tokenizer, `tokenizer.unknown` for a kind that is not supported.
    pub fn from_gguf(vocab: &GgufVocab) -> Result<Self> {
        let made = gguf::to_json(vocab)?;
        let bytes = serde_json::to_vec(&made.tokenizer).map_err(|e| bad(&e.to_string()))?;
        drop(made.tokenizer);
        Self::build(bytes, made.config, None, vocab.chat_template.clone(), vocab.tokens.len(), made.notes)
    }

    /// One token a byte: ids 0 to 255 are bytes, 256 `<s>`, 257 `</s>`, 258 `<pad>`; declared as 384 ids, a size that
    /// suits matrix products, of which the rest is unused.
    pub fn bytes() -> Result<Self> {
        let json = serde_json::to_vec(&bytes::tokenizer_json()).map_err(|e| bad(&e.to_string()))?;
        Self::build(json, bytes::config_json(), None, None, bytes::VOCAB, Vec::new())
    }

    fn build(
        json: Vec<u8>,
        config: Value,
        map: Option<&Value>,
        chat_template: Option<String>,
        declared: usize,
        notes: Vec<String>,
    ) -> Result<Self> {
        let mut core = core::read(&json)?;
        core.with_padding(None);
        core.with_truncation(None).map_err(|e| bad(&e.to_string()))?;
        let special = Special::find(&core, &config, map)?;
        core.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
        let highest = core.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        if highest == 0 {
            return Err(bad("its vocabulary is empty"));
        }
        // A vocabulary of little more than bytes has nothing to look up, and whole rows would fill the cache of words.
        if highest <= FEW_IDS {
            let mut model = core.get_model().clone();
            model.resize_cache(0);
            core.with_model(model);
        }
        let vocab_size = highest.max(declared);
        Ok(Tokenizer {
            core: Arc::new(core),
            literal: OnceLock::new(),
            json,
            config,
            special,
            vocab_size,
            chat_template,
            notes,
        })
    }

    /// Ids of a text, with nothing added before or after. With `specials_parsed` the text of a special token
    /// (`<|im_end|>`) is that token, as everywhere in the field; without, it is text like any other.
    pub fn encode(&self, text: &str, specials_parsed: bool) -> Result<Vec<u32>> {
        let core = if specials_parsed {
            &self.core
        } else {
            self.literal.get_or_init(|| {
                let mut literal = (*self.core).clone();
                literal.set_encode_special_tokens(true);
                literal
            })
        };
        let encoding = core.encode_fast(text, false).map_err(|e| unencodable(&e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of a text, special tokens parsed, each with the bytes of the text it stands for.
    pub(super) fn encode_with_offsets(&self, text: &str) -> Result<(Vec<u32>, Vec<Offsets>)> {
        let encoding = self.core.encode(text, false).map_err(|e| unencodable(&e.to_string()))?;
        Ok((encoding.get_ids().to_vec(), encoding.get_offsets().to_vec()))
    }

    /// The text of ids, special tokens left out. Ids that the vocabulary lacks are left out too.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.core.decode(ids, true).map_err(|e| unencodable(&e.to_string()))
    }

    /// What it takes to write ids out, shared with this tokenizer and alive without it.
    pub fn decoder(&self) -> Decoder {
        Decoder::new(self.core.clone(), self.json.len())
    }

    /// A bound on the bytes it holds, its file among them.
    pub fn held(&self) -> u64 {
        let template = self.chat_template.as_ref().map_or(0, String::len);
        // A parsed value takes some times its text.
        let around = self.json.len() + self.config.to_string().len() * 8 + template;
        self.decoder().bytes().saturating_add(around as u64)
    }

    /// Tells one vocabulary from another.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.core) as usize
    }

    /// The text of ids, special tokens written out: what a person who looks at tokens wants to see.
    pub fn show(&self, ids: &[u32]) -> Result<String> {
        self.core.decode(ids, false).map_err(|e| unencodable(&e.to_string()))
    }

    /// Text as ids arrive one by one.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }

    /// The token that begins a row, where this tokenizer adds one of its own accord.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos.as_ref().filter(|_| self.special.adds_bos).map(|token| token.id)
    }

    pub fn adds_bos(&self) -> bool {
        self.bos().is_some()
    }

    /// The beginning-of-text token's text, for templates: known also where it is not added of its own accord.
    pub fn bos_text(&self) -> &str {
        self.special.bos.as_ref().map_or("", |token| &token.text)
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.special.eos.as_ref().map(|token| token.id)
    }

    pub fn eos_text(&self) -> &str {
        self.special.eos.as_ref().map_or("", |token| &token.text)
    }

    pub fn pad(&self) -> Option<u32> {
        self.special.pad.as_ref().map(|token| token.id)
    }

    /// Ids at which writing on stops: end of text, and end of turn. Ascending.
    pub fn stop_ids(&self) -> &[u32] {
        &self.special.stops
    }

    /// Highest id + 1: rows that an embedding needs.
    /// Whether it knows little more than bytes, and so remembers nothing.
    pub fn is_tiny(&self) -> bool {
        self.core.get_vocab_size(true) <= FEW_IDS
    }

    /// Ids that a model has to know.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// What a person should know about how it was read; empty as a rule.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Names everything that decides on the ids of a row: equal fingerprints, equal ids. Hexadecimal SHA-256.
    pub fn fingerprint(&self) -> String {
        let mut sha = Sha256::new();
        let config = self.to_config_json().to_string();
        // Special tokens may come from a file of their own.
        let special = json!([self.bos(), self.bos_text(), self.eos(), self.eos_text(), self.pad(), self.stop_ids()]);
        for part in [&self.json[..], config.as_bytes(), special.to_string().as_bytes(), &[u8::from(self.adds_bos())]] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
        sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The `tokenizer.json`.
    pub fn to_json(&self) -> Vec<u8> {
        self.json.clone()
    }

    /// The `tokenizer_config.json`, chat template included.
    pub fn to_config_json(&self) -> Value {
        let mut config = self.config.clone();
        if let (Some(keys), Some(template)) = (config.as_object_mut(), &self.chat_template) {
            keys.insert("chat_template".into(), json!(template));
        }
        config
    }
}

/// The chat template of a `tokenizer_config.json`: a string, or the one named `default` of a list.
fn template_of(config: &Value) -> Option<String> {
    match config.get("chat_template")? {
        Value::String(template) => Some(template.clone()),
        Value::Array(named) => {
            let default = named.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))?;
            Some(default.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    }
}

fn bad(why: &str) -> Fault {
    Fault::new("tokenizer.bad", format!("this is no tokenizer that can be used: {why}"))
}

fn unencodable(why: &str) -> Fault {
    Fault::new("tokenizer.failed", format!("the tokenizer failed on a text: {why}"))
}

#[cfg(test)]
mod tests;
