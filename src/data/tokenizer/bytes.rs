//! The tokenizer of bytes, as a `tokenizer.json` that Hugging Face's library reads: byte-level BPE without merges.

use serde_json::{Map, Value, json};

/// Ids declared: the bytes, three special tokens, and unused ones up to a multiple of 128.
pub(super) const VOCAB: usize = 384;

/// GPT-2's printable character of each byte, as the `ByteLevel` steps of `tokenizers` write it: printable Latin-1 stands
/// for itself, the other bytes are counted up from U+0100.
pub(super) fn byte_chars() -> [char; 256] {
    let mut chars = ['\0'; 256];
    let mut next = 0x100;
    for (byte, slot) in (0u8..=255).zip(chars.iter_mut()) {
        *slot = match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap_or('\0')
            }
        };
    }
    chars
}

/// An entry of `added_tokens`. User-defined tokens are matched in text like special ones, but decoding keeps them.
pub(super) fn added(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": special,
    })
}

/// A post-processor that puts special tokens around a text.
pub(super) fn surround(before: Option<(&str, u32)>, after: Option<(&str, u32)>) -> Value {
    if before.is_none() && after.is_none() {
        return Value::Null;
    }
    let special = |token: (&str, u32)| json!({"SpecialToken": {"id": token.0, "type_id": 0}});
    let around = |letter: &str, kind: u32| {
        let sequence = json!({"Sequence": {"id": letter, "type_id": kind}});
        before.map(special).into_iter().chain([sequence]).chain(after.map(special)).collect::<Vec<_>>()
    };
    let tokens: Map<String, Value> = before
        .into_iter()
        .chain(after)
        .map(|(text, id)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]})))
        .collect();
    let pair: Vec<Value> = around("A", 0).into_iter().chain(around("B", 1)).collect();
    json!({"type": "TemplateProcessing", "single": around("A", 0), "pair": pair, "special_tokens": tokens})
}

pub(super) fn tokenizer_json() -> Value {
    let vocab: Map<String, Value> =
        byte_chars().iter().enumerate().map(|(byte, c)| (c.to_string(), json!(byte))).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [added(256, "<s>", true), added(257, "</s>", true), added(258, "<pad>", true)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "post_processor": surround(Some(("<s>", 256)), None),
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [],
        },
    })
}

pub(super) fn config_json() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
        "add_bos_token": true, "add_eos_token": false,
        "clean_up_tokenization_spaces": false,
    })
}
