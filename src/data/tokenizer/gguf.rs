//! A GGUF file's vocabulary as a `tokenizer.json`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::bad;
use super::bytes::{added, surround};
use crate::store::gguf::GgufVocab;
use crate::text::{Fault, Result};

const UNKNOWN: u32 = 2;
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;
const BYTE: u32 = 6;

pub(super) struct Made {
    pub tokenizer: Value,
    pub config: Value,
    pub notes: Vec<String>,
}

pub(super) fn to_json(vocab: &GgufVocab) -> Result<Made> {
    if vocab.tokens.is_empty() {
        return Err(bad("the GGUF file lists no tokens"));
    }
    if !vocab.token_types.is_empty() && vocab.token_types.len() != vocab.tokens.len() {
        return Err(bad(&format!("{} tokens, but {} token types", vocab.tokens.len(), vocab.token_types.len())));
    }
    for (key, id) in [("bos", vocab.bos), ("eos", vocab.eos), ("padding", vocab.pad), ("unknown", vocab.unk)] {
        if let Some(id) = id.filter(|id| *id as usize >= vocab.tokens.len()) {
            return Err(bad(&format!("its {key} token is {id}, of only {} tokens", vocab.tokens.len())));
        }
    }
    let mut notes = Vec::new();
    let (steps, adds_bos) = match vocab.model.as_str() {
        "gpt2" => (byte_level(vocab, &mut notes)?, vocab.add_bos.unwrap_or(is_llama3(vocab.pre.as_deref()))),
        "llama" => (sentencepiece(vocab)?, vocab.add_bos.unwrap_or(true)),
        other => {
            let fault = Fault::new("tokenizer.unknown", format!("the GGUF file's tokenizer is of the kind `{other}`"));
            return Err(fault
                .note("known kinds: gpt2, llama")
                .help("give the model's tokenizer.json: `load model \"…gguf\" tokenizer=\"tokenizer.json\"`"));
        }
    };
    let text = |id: Option<u32>| id.and_then(|id| vocab.tokens.get(id as usize)).map(String::as_str);
    let around = |id: Option<u32>, on: bool| id.filter(|_| on).and_then(|id| Some((text(Some(id))?, id)));
    let adds_eos = vocab.add_eos.unwrap_or(false);
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(vocab),
        "normalizer": steps.normalizer,
        "pre_tokenizer": steps.pre_tokenizer,
        "post_processor": surround(around(vocab.bos, adds_bos), around(vocab.eos, adds_eos)),
        "decoder": steps.decoder,
        "model": steps.model,
    });
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
    for (key, id) in
        [("bos_token", vocab.bos), ("eos_token", vocab.eos), ("pad_token", vocab.pad), ("unk_token", vocab.unk)]
    {
        if let Some(text) = text(id) {
            config.insert(key.into(), json!(text));
        }
    }
    config.insert("add_bos_token".into(), json!(adds_bos && vocab.bos.is_some()));
    config.insert("add_eos_token".into(), json!(adds_eos && vocab.eos.is_some()));
    config.insert("clean_up_tokenization_spaces".into(), json!(false));
    Ok(Made { tokenizer, config: Value::Object(config), notes })
}

/// The parts of a `tokenizer.json` that the two kinds differ in.
struct Steps {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    model: Value,
}

fn kind(vocab: &GgufVocab, id: usize) -> u32 {
    vocab.token_types.get(id).copied().unwrap_or(1)
}

/// Control and user-defined tokens, and the ones that the file names by their role.
fn added_tokens(vocab: &GgufVocab) -> Vec<Value> {
    let named = [vocab.bos, vocab.eos, vocab.pad, vocab.unk];
    let entry = |(id, token): (usize, &String)| {
        let special =
            matches!(kind(vocab, id), CONTROL | UNKNOWN) || named.iter().flatten().any(|named| *named as usize == id);
        let matched = (special || kind(vocab, id) == USER_DEFINED) && !token.is_empty();
        matched.then(|| added(id, token, special))
    };
    vocab.tokens.iter().enumerate().filter_map(entry).collect()
}

fn ids(vocab: &GgufVocab) -> Map<String, Value> {
    vocab.tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect()
}

/// Names that llama.cpp gives to Llama 3's way of splitting a text.
fn is_llama3(pre: Option<&str>) -> bool {
    matches!(pre, Some("llama3" | "llama-bpe" | "llama-v3" | "dbrx" | "smaug-bpe" | "falcon3"))
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Normaliser and pre-tokenizer by the name that llama.cpp knows them under.
fn splitting(pre: Option<&str>, notes: &mut Vec<String>) -> (Value, Value) {
    let byte_level = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex});
    let split = |pattern: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
    };
    match pre {
        pre if is_llama3(pre) => (Value::Null, split(LLAMA3)),
        Some("smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b") => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            (Value::Null, json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}))
        }
        Some("qwen2" | "deepseek-r1-qwen" | "megrez" | "hunyuan") => (json!({"type": "NFC"}), split(QWEN2)),
        Some("stablelm2") => (Value::Null, split(QWEN2)),
        Some("tekken") => (Value::Null, split(TEKKEN)),
        None | Some("default" | "gpt-2" | "gpt2" | "mpt" | "olmo" | "jais" | "phi-2" | "trillion") => {
            (Value::Null, byte_level(true))
        }
        Some(other) => {
            notes.push(format!(
                "the GGUF file splits text by the rules `{other}`, which are not known here; GPT-2's are used, \
                 and ids may differ from the original's"
            ));
            (Value::Null, byte_level(true))
        }
    }
}

/// Byte-level BPE with the file's own merges.
fn byte_level(vocab: &GgufVocab, notes: &mut Vec<String>) -> Result<Steps> {
    let pair = |merge: &String| {
        merge
            .split_once(' ')
            .map(|(left, right)| json!([left, right]))
            .ok_or_else(|| bad(&format!("the merge `{merge}` is not two tokens with a space between")))
    };
    let merges = vocab.merges.iter().map(pair).collect::<Result<Vec<Value>>>()?;
    let (normalizer, pre_tokenizer) = splitting(vocab.pre.as_deref(), notes);
    Ok(Steps {
        normalizer,
        pre_tokenizer,
        decoder: json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true}),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            // Llama 3 takes a word that is a token as that token, whether or not merges lead there.
            "ignore_merges": is_llama3(vocab.pre.as_deref()),
            "vocab": ids(vocab), "merges": merges,
        }),
    })
}

/// SentencePiece's BPE. Its file has scores instead of merges: every way to cut a token into two tokens is a merge, and
/// the token's score ranks it, as transformers converts such files.
fn sentencepiece(vocab: &GgufVocab) -> Result<Steps> {
    if vocab.scores.len() != vocab.tokens.len() {
        return Err(bad(&format!("{} tokens, but {} scores", vocab.tokens.len(), vocab.scores.len())));
    }
    if let Some(at) = vocab.scores.iter().position(|score| score.is_nan()) {
        return Err(bad(&format!("the score of token {at} is no number")));
    }
    let index: HashMap<&str, usize> = vocab.tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let mut merges: Vec<(f32, usize, usize, &str, &str)> = Vec::new();
    for (id, token) in vocab.tokens.iter().enumerate() {
        if matches!(kind(vocab, id), UNKNOWN | CONTROL | BYTE) {
            continue;
        }
        let mut cuts: Vec<(usize, usize, &str, &str)> = token
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| {
                let (left, right) = token.split_at_checked(at)?;
                Some((*index.get(left)?, *index.get(right)?, left, right))
            })
            .collect();
        cuts.sort_unstable();
        let score = vocab.scores[id];
        merges.extend(cuts.iter().map(|(_, _, l, r)| (score, l.chars().count(), r.chars().count(), *l, *r)));
    }
    // Best score first, longer parts first among equals; the sort is stable, so ids decide the rest.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
    let merges: Vec<Value> = merges.iter().map(|(_, _, _, left, right)| json!([left, right])).collect();
    let unk = vocab.unk.and_then(|id| vocab.tokens.get(id as usize)).map_or("<unk>", String::as_str);
    let spaced = vocab.add_space_prefix.unwrap_or(true);
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if spaced {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(Steps {
        normalizer: json!({
            "type": "Sequence",
            "normalizers": if spaced { vec![prepend, replace] } else { vec![replace] },
        }),
        pre_tokenizer: Value::Null,
        decoder: json!({"type": "Sequence", "decoders": decoders}),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": index.contains_key(unk).then_some(unk),
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
            "ignore_merges": false, "vocab": ids(vocab), "merges": merges,
        }),
    })
}
