//! A GGUF's metadata as a Hugging Face `config.json`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::bytes::broken;
use super::{GgufFile, GgufValue};
use crate::text::{Fault, Result};

/// The config that a Hugging Face folder of the same model would hold.
///
/// Errors: `gguf.split`, `gguf.architecture` for other families than llama, `config.missing_key`, `config.bad_key`.
pub(in crate::store) fn hf_config(file: &GgufFile) -> Result<Value> {
    let path = file.path();
    if count_or(file, "split.count", 1)? > 1 {
        return Err(broken(&path, "gguf.split", "it is one of several parts of a model")
            .help("join the parts with `llama-gguf-split --merge FIRST_PART WHOLE.gguf`"));
    }
    match file.value("general.architecture").and_then(GgufValue::as_str) {
        Some("llama") => {}
        Some(other) => {
            return Err(broken(&path, "gguf.architecture", &format!("its architecture is `{other}`"))
                .note("models of the llama family are read (Llama, Mistral, SmolLM2, TinyLlama)"));
        }
        None => return Err(missing(&path, "general.architecture")),
    }
    if count_or(file, "llama.expert_count", 0)? > 0 {
        return Err(broken(&path, "gguf.architecture", "it is a mixture of experts, which is not read"));
    }
    let heads = count(file, "llama.attention.head_count")?;
    let kv_heads = count_or(file, "llama.attention.head_count_kv", heads)?;
    let hidden = count(file, "llama.embedding_length")?;
    if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let what = format!("{heads} heads over {kv_heads} key-value heads do not divide");
        return Err(broken(&path, "config.bad_key", &what));
    }
    let head_dim = count_or(file, "llama.attention.key_length", hidden / heads)?;
    let rope_dims = count_or(file, "llama.rope.dimension_count", head_dim)?;
    if rope_dims != head_dim {
        let what = format!("rotary embeddings cover {rope_dims} of {head_dim} dimensions of a head");
        return Err(broken(&path, "config.bad_key", &what).note("only full rotary embeddings are known"));
    }
    let Some(vocab) = file.get("token_embd.weight").and_then(|t| t.shape.first()) else {
        return Err(
            Fault::new("model.missing_tensor", format!("`{}` has no `token_embd.weight`", path.display())).at(&path)
        );
    };
    let eps = number(file, "llama.attention.layer_norm_rms_epsilon")?
        .ok_or_else(|| missing(&path, "llama.attention.layer_norm_rms_epsilon"))?;
    let has = |name: &str| file.get(name).is_some();

    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    set("architectures", json!(["LlamaForCausalLM"]));
    set("model_type", json!("llama"));
    set("hidden_size", json!(hidden));
    set("intermediate_size", json!(count(file, "llama.feed_forward_length")?));
    set("num_hidden_layers", json!(count(file, "llama.block_count")?));
    set("num_attention_heads", json!(heads));
    set("num_key_value_heads", json!(kv_heads));
    set("head_dim", json!(head_dim));
    set("vocab_size", json!(vocab));
    set("max_position_embeddings", json!(count(file, "llama.context_length")?));
    set("rms_norm_eps", json!(short(eps)));
    set("rope_theta", json!(short(number(file, "llama.rope.freq_base")?.unwrap_or(10000.0))));
    set("rope_scaling", rope_scaling(file)?);
    set("hidden_act", json!("silu"));
    set("attention_bias", json!(has("blk.0.attn_q.bias")));
    set("mlp_bias", json!(has("blk.0.ffn_up.bias")));
    set("tie_word_embeddings", json!(!has("output.weight")));
    for (key, from) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        if let Some(id) = file.value(&format!("tokenizer.ggml.{from}_token_id")).and_then(GgufValue::as_u64) {
            set(key, json!(id));
        }
    }
    set("torch_dtype", json!("bfloat16"));
    Ok(Value::Object(config))
}

/// f32 metadata such as 1e-5 without the digits that widening adds.
fn short(x: f64) -> f64 {
    (x as f32).to_string().parse().unwrap_or(x)
}

fn missing(path: &Path, key: &str) -> Fault {
    Fault::new("config.missing_key", format!("`{}` has no metadata `{key}`", path.display())).at(path)
}

fn bad(file: &GgufFile, key: &str, expected: &str) -> Fault {
    let path = file.path();
    Fault::new("config.bad_key", format!("`{key}` of `{}` is not {expected}", path.display())).at(&path)
}

/// A count; an array of counts, one a layer, serves where all are the same.
fn optional_count(file: &GgufFile, key: &str) -> Result<Option<u64>> {
    let Some(value) = file.value(key) else { return Ok(None) };
    if let Some([first, rest @ ..]) = value.as_array() {
        if rest.iter().any(|n| n != first) {
            return Err(bad(file, key, "the same for every layer").note("layers of different shapes are not read"));
        }
        return first.as_u64().map(Some).ok_or_else(|| bad(file, key, "a count"));
    }
    value.as_u64().map(Some).ok_or_else(|| bad(file, key, "a count"))
}

fn count(file: &GgufFile, key: &str) -> Result<u64> {
    optional_count(file, key)?.ok_or_else(|| missing(&file.path(), key))
}

fn count_or(file: &GgufFile, key: &str, default: u64) -> Result<u64> {
    Ok(optional_count(file, key)?.unwrap_or(default))
}

fn number(file: &GgufFile, key: &str) -> Result<Option<f64>> {
    let Some(value) = file.value(key) else { return Ok(None) };
    value.as_f64().filter(|x| x.is_finite()).map(Some).ok_or_else(|| bad(file, key, "a number"))
}

/// Scaling of rotary frequencies: named in the metadata, or spelled out in `rope_freqs.weight` (llama 3.1 and later).
fn rope_scaling(file: &GgufFile) -> Result<Value> {
    if let Some(freqs) = file.get("rope_freqs.weight") {
        let n = freqs.shape.iter().product::<usize>();
        if n > 4096 {
            return Err(bad(file, "rope_freqs.weight", "a list of frequency factors"));
        }
        let mut factors = vec![0f32; n];
        file.read_f32(freqs, 0, &mut factors)?;
        let theta = number(file, "llama.rope.freq_base")?.unwrap_or(10000.0);
        return Ok(llama3(&factors, theta).unwrap_or_else(|| json!({ "rope_type": "factors", "factors": factors })));
    }
    let kind = file.value("llama.rope.scaling.type").and_then(GgufValue::as_str).unwrap_or("none");
    // An older name of the factor, from before types were written.
    let linear = number(file, "llama.rope.scale_linear")?;
    let factor = number(file, "llama.rope.scaling.factor")?.or(linear);
    match (kind, factor) {
        ("none", None) => Ok(Value::Null),
        ("none", Some(f)) if f == 0.0 || f == 1.0 => Ok(Value::Null),
        ("none" | "linear", Some(f)) => Ok(json!({ "rope_type": "linear", "factor": short(f) })),
        ("linear", None) => Err(missing(&file.path(), "llama.rope.scaling.factor")),
        (other, factor) => {
            let original = optional_count(file, "llama.rope.scaling.original_context_length")?;
            Ok(json!({
                "rope_type": other,
                "factor": factor.map(short),
                "original_max_position_embeddings": original,
            }))
        }
    }
}

/// The `llama3` scaling whose factors these are, if they are. Its three constants are those of every published model that has
/// it; the factor is the largest of the list.
fn llama3(factors: &[f32], theta: f64) -> Option<Value> {
    let (low, high, original) = (1.0f64, 4.0f64, 8192.0f64);
    let factor = f64::from(factors.iter().copied().fold(1.0f32, f32::max));
    let half = factors.len();
    let fits = factors.iter().enumerate().all(|(i, found)| {
        let wavelength = 2.0 * std::f64::consts::PI * theta.powf(i as f64 / half as f64);
        let expected = if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        (f64::from(*found) - expected).abs() <= 1e-3 * expected
    });
    (factor > 1.0 && fits).then(|| {
        json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original as u64,
        })
    })
}
