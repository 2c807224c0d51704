//! A shape from `config.json` or from the catalogue, and back to `config.json`.

use serde_json::{Value, json};

use super::family::Family;
use super::shape::{Rope, Scaling, Shape};
use crate::plan::Val;
use crate::text::{Fault, Result};

impl Shape {
    /// Reads transformers' `config.json`, the older keys (`rope_theta`, `rope_scaling`) and the newer
    /// `rope_parameters` alike. What may be left out is what `LlamaConfig` has defaults for that do not decide a
    /// tensor's size.
    pub fn from_config(config: &Value) -> Result<Shape> {
        if !config.is_object() {
            return Err(Fault::new("config.bad_value", "the model's config is not a JSON object"));
        }
        let keys = Keys(config);
        let family = match keys.text("model_type")? {
            Some(name) => Family::from_name(name).filter(|family| family.runs()).ok_or_else(|| stranger(name))?,
            None => return Err(missing("model_type")),
        };
        if let Some(act) = keys.text("hidden_act")?
            && act != "silu"
        {
            return Err(Fault::new(
                "model.activation",
                format!("`hidden_act` is `{act}`; the family `{}` here is silu", family.name()),
            ));
        }
        quantised_or_partial(&keys)?;
        let (hidden, heads) = (keys.need("hidden_size")?, keys.need("num_attention_heads")?);
        let head_dim = match keys.count("head_dim")? {
            Some(given) => given,
            None => even_split(hidden, heads)?,
        };
        // Only Llama's own defaults are those that a reader would expect.
        let or_llama = |key: &str, default: usize| match keys.count(key)? {
            Some(given) => Ok(given),
            None if family == Family::Llama => Ok(default),
            None => Err(missing(key)),
        };
        let shape = Shape {
            family,
            hidden,
            layers: keys.need("num_hidden_layers")?,
            heads,
            kv_heads: or_llama("num_key_value_heads", heads)?,
            head_dim,
            ffn: keys.need("intermediate_size")?,
            vocab: keys.need("vocab_size")?,
            tied: keys.flag("tie_word_embeddings")?.unwrap_or(false),
            attention_bias: family == Family::Qwen2 || keys.flag("attention_bias")?.unwrap_or(false),
            mlp_bias: keys.flag("mlp_bias")?.unwrap_or(false),
            norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope: rope_of(&keys)?,
            max_positions: or_llama("max_position_embeddings", 2048)?.min(window(&keys, family)?),
        };
        shape.validate()?;
        Ok(shape)
    }

    /// Reads the keys of a `shape` line of the catalogue (`hidden=96 layers=3 … tied rope_theta=10000`).
    pub fn from_keys(keys: &[(String, Val)]) -> Result<Shape> {
        let find = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, val)| val);
        let bad = |name: &str| Fault::new("shape.bad_value", format!("`{name}` of the shape is not of its type"));
        let count = |name: &str| match find(name) {
            None | Some(Val::None) => Ok(None),
            Some(Val::Int(n)) => usize::try_from(*n).map(Some).map_err(|_| bad(name)),
            Some(_) => Err(bad(name)),
        };
        let need = |name: &str| {
            count(name)?.ok_or_else(|| Fault::new("shape.missing_key", format!("the shape does not give `{name}`")))
        };
        let number = |name: &str| match find(name) {
            None | Some(Val::None) => Ok(None),
            Some(Val::Int(n)) => Ok(Some(*n as f64)),
            Some(Val::Float(x)) => Ok(Some(*x)),
            Some(_) => Err(bad(name)),
        };
        let word = |name: &str| match find(name) {
            None | Some(Val::None) => Ok(None),
            Some(Val::Symbol(s) | Val::Str(s)) => Ok(Some(s.as_str())),
            Some(_) => Err(bad(name)),
        };
        let flag = |name: &str| match find(name) {
            None | Some(Val::None) => Ok(false),
            Some(Val::Bool(b)) => Ok(*b),
            Some(_) => Err(bad(name)),
        };
        const KNOWN: &[&str] = &[
            "family",
            "hidden",
            "layers",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn",
            "vocab",
            "positions",
            "tied",
            "attention_bias",
            "mlp_bias",
            "norm_eps",
            "rope_theta",
            "rope_scaling",
            "rope_factor",
        ];
        if let Some((stray, _)) = keys.iter().find(|(key, _)| !KNOWN.contains(&key.as_str())) {
            return Err(Fault::new("shape.unknown_key", format!("a shape has no key `{stray}`"))
                .note(format!("its keys are {}", KNOWN.join(", "))));
        }
        let name = word("family")?.unwrap_or("llama");
        let family = Family::from_name(name).ok_or_else(|| stranger(name))?;
        let (hidden, heads) = (need("hidden")?, need("heads")?);
        let scaling = match word("rope_scaling")? {
            None | Some("default") => Scaling::None,
            Some("linear") => Scaling::Linear { factor: number("rope_factor")?.unwrap_or(1.0) },
            // What Llama 3.1 was published with.
            Some("llama3") => {
                Scaling::Llama3 { factor: number("rope_factor")?.unwrap_or(8.0), low: 1.0, high: 4.0, original: 8192.0 }
            }
            Some(other) => return Err(unknown_scaling(other)),
        };
        let shape = Shape {
            family,
            hidden,
            layers: need("layers")?,
            heads,
            kv_heads: count("kv_heads")?.unwrap_or(heads),
            head_dim: match count("head_dim")? {
                Some(given) => given,
                None => even_split(hidden, heads)?,
            },
            ffn: need("ffn")?,
            vocab: need("vocab")?,
            tied: flag("tied")?,
            attention_bias: family == Family::Qwen2 || flag("attention_bias")?,
            mlp_bias: flag("mlp_bias")?,
            norm_eps: number("norm_eps")?.unwrap_or(1e-5),
            rope: Rope { theta: number("rope_theta")?.unwrap_or(10000.0), scaling },
            max_positions: count("positions")?.unwrap_or(2048),
        };
        shape.validate()?;
        Ok(shape)
    }

    /// `config.json` of this shape, in keys that every transformers since 4.43 reads. `dtype` is torch's name of the
    /// saved type (`bfloat16`).
    pub fn to_config(&self, dtype: &str) -> Value {
        let mut config = json!({
            "architectures": [self.family.architecture()],
            "model_type": self.family.name(),
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.max_positions,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "attention_bias": self.attention_bias,
            "mlp_bias": self.mlp_bias,
            "tie_word_embeddings": self.tied,
            "rope_theta": self.rope.theta,
            "rope_scaling": null,
            "torch_dtype": dtype,
        });
        if self.family != Family::Llama {
            // Neither has these keys; the window is one that the family would otherwise take for granted.
            config["sliding_window"] = Value::Null;
            config["use_sliding_window"] = json!(false);
            if let Some(keys) = config.as_object_mut() {
                keys.remove("attention_bias");
                keys.remove("mlp_bias");
            }
        }
        match self.rope.scaling {
            Scaling::None => {}
            Scaling::Linear { factor } => {
                config["rope_scaling"] = json!({ "rope_type": "linear", "factor": factor });
            }
            Scaling::Llama3 { factor, low, high, original } => {
                config["rope_scaling"] = json!({
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low,
                    "high_freq_factor": high,
                    // An integer there, or transformers warns.
                    "original_max_position_embeddings": original as u64,
                });
            }
        }
        config
    }
}

fn stranger(name: &str) -> Fault {
    let fault = Fault::new("model.family", format!("models of the family `{name}` cannot be trained here"))
        .note(format!("families that can: {}", Family::runnable()));
    match Family::from_name(name) {
        Some(_) => fault.note("it is sized: `plan` takes it as `shape=…`, where its files are not there"),
        None => fault,
    }
}

/// Positions within which attention is full: Mistral's window, which Qwen 2 has too but mostly leaves off.
fn window(keys: &Keys<'_>, family: Family) -> Result<usize> {
    let on = match family {
        Family::Mistral => true,
        Family::Qwen2 => keys.flag("use_sliding_window")?.unwrap_or(false),
        _ => false,
    };
    Ok(if on { keys.count("sliding_window")?.unwrap_or(usize::MAX) } else { usize::MAX })
}

fn missing(key: &str) -> Fault {
    Fault::new("config.missing_key", format!("the model's config does not give `{key}`"))
        .help(format!("add \"{key}\" to config.json, as the model's publisher has it"))
}

fn even_split(hidden: usize, heads: usize) -> Result<usize> {
    match hidden.checked_rem(heads) {
        Some(0) => Ok(hidden / heads),
        None => Err(Fault::new("config.bad_value", "the number of attention heads is 0, so there is no model")),
        Some(_) => Err(Fault::new(
            "config.bad_value",
            format!("a hidden size of {hidden} does not split into {heads} heads, and no `head_dim` is given"),
        )),
    }
}

/// What a config may say that this family's decoder would silently compute otherwise.
fn quantised_or_partial(keys: &Keys<'_>) -> Result<()> {
    if let Some(quantised) = keys.get("quantization_config") {
        let method = quantised.get("quant_method").and_then(Value::as_str).unwrap_or("an unnamed method");
        return Err(Fault::new("model.quantised", format!("its weights are stored quantised, by `{method}`"))
            .help("load the model it was made from, and `quantize nf4` here; a GGUF file is read too"));
    }
    match keys.number("partial_rotary_factor")? {
        Some(part) if part != 1.0 => {
            Err(Fault::new("model.rope", format!("rotary embeddings cover only {part} of a head's dimensions"))
                .note("only full rotary embeddings are known"))
        }
        _ => Ok(()),
    }
}

fn unknown_scaling(kind: &str) -> Fault {
    Fault::new("model.rope", format!("rotary scaling `{kind}` is not known here"))
        .note("known are `linear` and `llama3`, and none")
}

/// `rope_parameters` (new), or `rope_theta` beside `rope_scaling` (old), whose kind stands under `rope_type` or `type`.
fn rope_of(keys: &Keys<'_>) -> Result<Rope> {
    let outer_theta = keys.number("rope_theta")?;
    let inner = match (keys.0.get("rope_parameters"), keys.0.get("rope_scaling")) {
        (Some(inner), _) if !inner.is_null() => inner,
        (_, Some(inner)) if !inner.is_null() => inner,
        _ => return Ok(Rope { theta: outer_theta.unwrap_or(10000.0), scaling: Scaling::None }),
    };
    if !inner.is_object() {
        return Err(Fault::new("config.bad_value", "`rope_scaling` of the model's config is not an object"));
    }
    let inside = Keys(inner);
    let theta = inside.number("rope_theta")?.or(outer_theta).unwrap_or(10000.0);
    let kind = match inside.text("rope_type")? {
        Some(kind) => kind,
        None => inside.text("type")?.unwrap_or("default"),
    };
    let need = |key: &str| inside.number(key)?.ok_or_else(|| missing(&format!("rope_scaling.{key}")));
    let scaling = match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: need("factor")? },
        "llama3" => Scaling::Llama3 {
            factor: need("factor")?,
            low: need("low_freq_factor")?,
            high: need("high_freq_factor")?,
            original: match inside.number("original_max_position_embeddings")? {
                Some(original) => original,
                None => keys
                    .number("original_max_position_embeddings")?
                    .ok_or_else(|| missing("rope_scaling.original_max_position_embeddings"))?,
            },
        },
        other => return Err(unknown_scaling(other)),
    };
    Ok(Rope { theta, scaling })
}

/// Typed readers of a JSON object. `null` counts as left out, as transformers writes it.
struct Keys<'a>(&'a Value);

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn wrong(key: &str, value: &Value, wanted: &str) -> Fault {
        Fault::new("config.bad_value", format!("`{key}` of the model's config is {value}, not {wanted}"))
    }

    fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .map(Some)
            .ok_or_else(|| Self::wrong(key, value, "a whole number"))
    }

    fn need(&self, key: &str) -> Result<usize> {
        self.count(key)?.ok_or_else(|| missing(key))
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| Self::wrong(key, value, "a number"))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| Self::wrong(key, value, "true or false"))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| Self::wrong(key, value, "a text"))
    }
}
