//! What was run, on what, by what: enough to know later why two runs differ.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::hashes::{hash, hashes};
use crate::plan::{Plan, Unit, Val};
use crate::store::Cache;
use crate::text::{Result, Sources};

fn value(val: &Val) -> Value {
    match val {
        Val::None => Value::Null,
        Val::Bool(b) => json!(b),
        Val::Int(n) => json!(n),
        Val::Float(x) => json!(x),
        Val::Bytes(n) => json!({"bytes": n}),
        Val::Quantity(n, unit) => {
            let unit = match unit {
                Unit::Percent => "percent",
                Unit::Steps => "steps",
                Unit::Epochs => "epochs",
                Unit::Rows => "rows",
            };
            json!({unit: n})
        }
        Val::Str(s) | Val::Symbol(s) => json!(s),
        Val::Path(p) => json!(p.display().to_string()),
        Val::List(items) => Value::Array(items.iter().map(value).collect()),
    }
}

/// Source text, resolved arguments, input hashes, versions and parameters of one run. Inputs that a cache knows, and that
/// did not change since, are not read for it.
pub fn manifest(plan: &Plan, sources: &Sources, inputs: &[PathBuf], cache: Option<&Cache>) -> Result<Value> {
    let inputs: Vec<PathBuf> = inputs.iter().chain(&plan.texts).cloned().collect();
    let hashes = hashes(&inputs, cache)?;
    let stages: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            let args: Map<String, Value> = step.args.0.iter().map(|arg| (arg.name.clone(), value(&arg.val))).collect();
            json!({"stage": step.stage, "line": step.line, "arguments": args})
        })
        .collect();
    let params: Map<String, Value> = plan.params.iter().map(|(name, val)| (name.clone(), value(val))).collect();
    let source = sources.get(plan.source);
    let used: Vec<Value> = plan
        .used
        .iter()
        .map(|id| sources.get(*id))
        .map(|used| json!({"file": used.name, "sha256": hash(used.text.as_bytes()), "text": used.text.as_ref()}))
        .collect();
    Ok(json!({
        "version": 1,
        "tunepipe": env!("CARGO_PKG_VERSION"),
        "machine": {"os": std::env::consts::OS, "architecture": std::env::consts::ARCH,
                    "threads": rayon::current_num_threads()},
        "pipeline": {"file": source.name, "text": source.text.as_ref()},
        "used": used,
        "params": params,
        "overrides": plan.overrides.iter().map(|one| json!({"given": one.what, "from": one.from})).collect::<Vec<_>>(),
        "stages": stages,
        "inputs": hashes,
    }))
}
