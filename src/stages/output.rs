//! A Hugging Face folder as a stage's output: what will lie in it, and the values that go there.

use std::path::PathBuf;

use serde_json::Value;

use super::world::{ModelDesc, Origin};
use crate::model::{Float, Shape};
use crate::store::{ModelPlan, StoredType, TensorInfo};
use crate::text::{Fault, Result};

/// `dtype=` of a save; auto is the source's own.
pub fn saved_type(argument: Option<&str>, own: StoredType) -> StoredType {
    match argument {
        Some("f32") => StoredType::F32,
        Some("bf16") => StoredType::BF16,
        Some("f16") => StoredType::F16,
        _ => own,
    }
}

pub fn float_of(dtype: StoredType) -> Float {
    match dtype {
        StoredType::BF16 => Float::Bf16,
        StoredType::F16 => Float::F16,
        _ => Float::F32,
    }
}

/// Everything that a saved model's folder holds: weights in the shape's order, the config with its type and tying as
/// they are now, tokenizer, template and generation files carried over.
pub fn folder_plan(model: &ModelDesc, dtype: StoredType, max_shard: u64) -> Result<ModelPlan> {
    let tensors =
        model.shape.tensors().iter().map(|tensor| TensorInfo::new(&tensor.name, &tensor.shape, dtype)).collect();
    let mut plan = ModelPlan::new(tensors, config(model, dtype)?);
    plan.max_shard = max_shard;
    match &model.origin {
        Origin::Files(files) if !files.source.carried_files().is_empty() => {
            plan.carried = files.source.carried_files().to_vec();
        }
        _ => {
            if let Some(tokenizer) = &model.tokenizer {
                plan.texts.push(("tokenizer.json".into(), tokenizer.to_json()));
                plan.texts.push(("tokenizer_config.json".into(), pretty(&tokenizer.to_config_json())?));
            }
        }
    }
    Ok(plan)
}

fn config(model: &ModelDesc, dtype: StoredType) -> Result<Value> {
    let float = float_of(dtype);
    let fresh = model.shape.to_config(float);
    let Origin::Files(files) = &model.origin else { return Ok(fresh) };
    // The source's own keys stay; what describes the tensors follows the tensors.
    let mut config = files.source.config().clone();
    if let (Some(own), Some(fresh)) = (config.as_object_mut(), fresh.as_object()) {
        own.remove("torch_dtype");
        own.remove("quantization_config");
        for key in ["dtype", "torch_dtype", "tie_word_embeddings", "architectures", "model_type"] {
            if let Some(value) = fresh.get(key) {
                own.insert(key.to_owned(), value.clone());
            }
        }
        for (key, value) in fresh {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(config)
}

fn pretty(value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).map_err(|e| Fault::new("json", format!("cannot write the tokenizer's config: {e}")))
}

/// Where a save goes.
pub struct Destination {
    pub path: PathBuf,
    pub overwrite: bool,
    pub folder: ModelPlan,
    pub bytes: u64,
}

/// Rows and columns of a tensor; a vector has one column.
pub fn rows_and_columns(shape: &Shape, name: &str) -> Result<(usize, usize)> {
    let tensor = shape.tensors().into_iter().find(|tensor| tensor.name == name);
    let tensor = tensor.ok_or_else(|| Fault::new("model.missing_tensor", format!("no tensor `{name}`")))?;
    Ok(match tensor.shape[..] {
        [rows, columns] => (rows, columns),
        _ => (tensor.shape.iter().product(), 1),
    })
}
