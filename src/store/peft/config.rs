//! `adapter_config.json`.

use std::path::Path;

use serde_json::{Value, json};

use crate::store::disk::read_json;
use crate::text::{Fault, Result};

/// Which linear layers carry an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Ends of module paths: `q_proj`.
    Names(Vec<String>),
    /// A regular expression over whole module paths.
    Pattern(String),
    AllLinear,
}

/// The part of an adapter's settings that says what it computes.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterConfig {
    pub rank: usize,
    pub alpha: f64,
    pub targets: Targets,
    pub dropout: f64,
    /// Scale by alpha / √rank in place of alpha / rank.
    pub rslora: bool,
    /// As the adapter's author named the model it was trained on.
    pub base_model: Option<String>,
}

/// Whether a value of a key leaves its feature unused.
type IsIdle = fn(&Value) -> bool;

/// Features that change what an adapter computes and are not known here.
const UNSUPPORTED: [(&str, IsIdle); 13] = [
    ("bias", |v| unset(v) || v == "none"),
    ("lora_bias", unset),
    ("fan_in_fan_out", unset),
    ("modules_to_save", unset),
    ("rank_pattern", unset),
    ("alpha_pattern", unset),
    ("layer_replication", unset),
    ("trainable_token_indices", unset),
    ("target_parameters", unset),
    ("alora_invocation_tokens", unset),
    ("layers_to_transform", unset),
    ("task_type", |v| unset(v) || v == "CAUSAL_LM"),
    ("init_lora_weights", |v| !changes_base(v)),
];

/// `use_…` and `…_config` keys that do not change what a saved adapter computes, or are read. PEFT names every new variant of
/// LoRA by such a key, so that one that appears after this was written is refused as well.
const HARMLESS: [&str; 4] = ["use_rslora", "eva_config", "loftq_config", "megatron_config"];

fn is_variant(key: &str) -> bool {
    (key.starts_with("use_") || key.ends_with("_config")) && !HARMLESS.contains(&key)
}

fn unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// These start from a changed base model, which the adapter alone does not hold.
fn changes_base(init: &Value) -> bool {
    let name = init.as_str().unwrap_or_default().to_lowercase();
    ["pissa", "olora", "corda", "loftq", "lora_ga"].iter().any(|kind| name.starts_with(kind))
}

impl AdapterConfig {
    /// Errors: `peft.unsupported` naming every feature that is not known, `config.missing_key`, `config.bad_key`, and those
    /// of reading JSON.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(path, &read_json(path)?)
    }

    fn from_json(path: &Path, json: &Value) -> Result<Self> {
        let get = |key: &str| json.get(key).filter(|v| !v.is_null());
        match get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(other) => return Err(unsupported(path, &format!("it is a `{other}` adapter; LORA is read"))),
            None => return Err(missing(path, "peft_type")),
        }
        let entries = json.as_object().into_iter().flatten();
        let used: Vec<String> = entries
            .filter(|(key, value)| match UNSUPPORTED.iter().find(|(known, _)| known == key) {
                Some((_, idle)) => !idle(value),
                None => is_variant(key) && !unset(value),
            })
            .map(|(key, value)| format!("`{key}` = {}", clip(value)))
            .collect();
        if !used.is_empty() {
            return Err(unsupported(path, &format!("it uses {}", used.join(", "))));
        }
        let rank = get("r").ok_or_else(|| missing(path, "r"))?;
        let rank = rank.as_u64().and_then(|r| usize::try_from(r).ok()).filter(|r| *r > 0);
        let alpha = get("lora_alpha").ok_or_else(|| missing(path, "lora_alpha"))?;
        let dropout = get("lora_dropout").map_or(Some(0.0), Value::as_f64);
        let flag =
            |key: &str| get(key).map_or(Some(false), Value::as_bool).ok_or_else(|| bad(path, key, "true or false"));
        let targets = match get("target_modules") {
            None => return Err(missing(path, "target_modules")),
            Some(Value::String(all)) if all == "all-linear" => Targets::AllLinear,
            Some(Value::String(pattern)) => Targets::Pattern(pattern.clone()),
            Some(Value::Array(items)) => {
                let names: Option<Vec<String>> = items.iter().map(|v| v.as_str().map(str::to_owned)).collect();
                let names = names.filter(|names| !names.is_empty());
                Targets::Names(names.ok_or_else(|| bad(path, "target_modules", "a list of module names"))?)
            }
            Some(_) => return Err(bad(path, "target_modules", "a list of module names or a pattern")),
        };
        Ok(AdapterConfig {
            rank: rank.ok_or_else(|| bad(path, "r", "a positive whole number"))?,
            alpha: alpha.as_f64().ok_or_else(|| bad(path, "lora_alpha", "a number"))?,
            targets,
            dropout: dropout
                .filter(|p| (0.0..1.0).contains(p))
                .ok_or_else(|| bad(path, "lora_dropout", "a number from 0 to below 1"))?,
            rslora: flag("use_rslora")?,
            base_model: get("base_model_name_or_path").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// What B·A is multiplied by.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }

    /// The file's contents, with every key that PEFT expects of an adapter for a causal language model.
    pub fn to_json(&self) -> Value {
        let targets = match &self.targets {
            Targets::Names(names) => {
                let mut names = names.clone();
                names.sort();
                names.dedup();
                json!(names)
            }
            Targets::Pattern(pattern) => json!(pattern),
            Targets::AllLinear => json!("all-linear"),
        };
        // PEFT's type for it is a whole number; others take fractions as well.
        let whole = self.alpha.fract() == 0.0 && self.alpha.abs() < 1e15;
        let alpha = if whole { json!(self.alpha as i64) } else { json!(self.alpha) };
        json!({
            "alpha_pattern": {},
            "auto_mapping": null,
            "base_model_name_or_path": self.base_model,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "layer_replication": null,
            "layers_pattern": null,
            "layers_to_transform": null,
            "loftq_config": {},
            "lora_alpha": alpha,
            "lora_dropout": self.dropout,
            "megatron_config": null,
            "megatron_core": "megatron.core",
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.rank,
            "rank_pattern": {},
            "revision": null,
            "target_modules": targets,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": self.rslora,
        })
    }
}

/// A value as JSON, cut to what fits in a message.
fn clip(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { text.chars().take(40).chain(['…']).collect() }
}

fn unsupported(path: &Path, what: &str) -> Fault {
    Fault::new("peft.unsupported", format!("the adapter of `{}` cannot be used: {what}", path.display()))
        .at(path)
        .note("an adapter read without what it uses would silently compute something else")
        .help("use a plain LoRA adapter, or merge this one with PEFT and load the merged model")
}

fn missing(path: &Path, key: &str) -> Fault {
    Fault::new("config.missing_key", format!("`{}` has no `{key}`", path.display())).at(path)
}

fn bad(path: &Path, key: &str, expected: &str) -> Fault {
    Fault::new("config.bad_key", format!("`{key}` in `{}` is not {expected}", path.display())).at(path)
}
