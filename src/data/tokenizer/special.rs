//! Which tokens begin, end and pad a text.

use serde_json::Value;

use super::bad;
use crate::text::Result;

/// Names under which models end a turn or a text. One that a vocabulary has as an added token stops generation.
const ENDS: [&str; 9] = [
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
];

pub(super) struct Token {
    pub text: String,
    pub id: u32,
}

pub(super) struct Special {
    pub bos: Option<Token>,
    /// Whether a text is begun with `bos` where nobody says otherwise.
    pub adds_bos: bool,
    pub eos: Option<Token>,
    pub pad: Option<Token>,
    /// Ascending, without repeats.
    pub stops: Vec<u32>,
}

impl Special {
    /// Reads them from the tokenizer with its post-processor still in place, `tokenizer_config.json` and
    /// `special_tokens_map.json`, in this order of weight: an explicit `add_bos_token`, then what the post-processor does.
    pub fn find(core: &tokenizers::Tokenizer, config: &Value, map: Option<&Value>) -> Result<Special> {
        let named = |key: &str| {
            let text = text_of(config.get(key)).or_else(|| text_of(map.and_then(|map| map.get(key))))?;
            let id = core.token_to_id(text)?;
            Some(Token { text: text.to_owned(), id })
        };
        let (before, after) = surrounding(core)?;
        let token = |id: u32| core.id_to_token(id).map(|text| Token { text, id });
        let bos = named("bos_token").or_else(|| before.and_then(token));
        let says = config.get("add_bos_token").and_then(Value::as_bool);
        let adds_bos = says.unwrap_or(before.is_some());
        let known = || ENDS.iter().find_map(|text| core.token_to_id(text)).and_then(token);
        let eos = named("eos_token").or_else(|| after.and_then(token)).or_else(known);
        let added = core.get_added_tokens_decoder();
        let ends = ENDS.iter().filter_map(|text| core.token_to_id(text)).filter(|id| added.contains_key(id));
        let mut stops: Vec<u32> = ends.chain(eos.as_ref().map(|token| token.id)).collect();
        stops.sort_unstable();
        stops.dedup();
        Ok(Special { bos, adds_bos, eos, pad: named("pad_token"), stops })
    }
}

/// A token's text in a configuration: a string, or an object that has it as `content`.
fn text_of(value: Option<&Value>) -> Option<&str> {
    let value = value?;
    value.as_str().or_else(|| value.get("content").and_then(Value::as_str))
}

/// The tokens that the post-processor puts before and after a text.
fn surrounding(core: &tokenizers::Tokenizer) -> Result<(Option<u32>, Option<u32>)> {
    let probe = |added: bool| {
        core.encode_fast("a", added).map(|encoding| encoding.get_ids().to_vec()).map_err(|e| bad(&e.to_string()))
    };
    let (bare, dressed) = (probe(false)?, probe(true)?);
    let around = dressed.len().saturating_sub(bare.len());
    let at = (0..=around).find(|at| dressed.get(*at..at + bare.len()) == Some(&bare[..]));
    Ok(match at {
        Some(at) if around > 0 => {
            (dressed.first().copied().filter(|_| at > 0), dressed.last().copied().filter(|_| at < around))
        }
        _ => (None, None),
    })
}
