//! The engine against what transformers, PEFT and bitsandbytes made of the same small models.

mod forward;
mod merging;
mod optim8;
mod proof;
mod sizes;
mod texts;
mod training;

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tunepipe::kernels::{Buf, Heap};
use tunepipe::model::{Adapter, Form, LoraSettings, Model, PairValues, Proj, Shape, WeightSource};
use tunepipe::text::{Fault, Result};

/// A file of a case.
fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

fn json(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path(file)).expect("a file")).expect("JSON")
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    floats(value).into_iter().map(|x| x as u32).collect()
}

/// A tensor of a safetensors file, as f32.
struct Stored {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// Every tensor of a file.
fn tensors(file: &str) -> HashMap<String, Stored> {
    let bytes = std::fs::read(path(file)).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let read = |name: &str| {
        let view = file.tensor(name).expect("a tensor");
        let values = match view.dtype() {
            Dtype::F32 => view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            Dtype::BF16 => {
                view.data().chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
            }
            Dtype::U8 => view.data().iter().map(|code| f32::from(*code)).collect(),
            _ => Vec::new(),
        };
        Stored { shape: view.shape().to_vec(), values }
    };
    file.names().into_iter().map(|name| (name.to_string(), read(name))).collect()
}

/// A Hugging Face folder in memory.
struct Folder(HashMap<String, Stored>);

impl WeightSource for Folder {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let tensor = self.0.get(name).ok_or_else(|| Fault::new("test", format!("no {name}")))?;
        let cols: usize = tensor.shape[1..].iter().product();
        out.copy_from_slice(&tensor.values[rows.start * cols..rows.end * cols]);
        Ok(())
    }
}

fn folder(case: &str) -> (Shape, Folder) {
    let shape = Shape::from_config(&json(&format!("{case}/config.json"))).expect("a shape");
    let folder = Folder(tensors(&format!("{case}/model.safetensors")));
    let given: Vec<(&str, &[usize])> = folder.0.iter().map(|(name, t)| (name.as_str(), &t.shape[..])).collect();
    shape.check_names(&given).expect("a whole model");
    (shape, folder)
}

fn model(case: &str, form: Form) -> Model {
    let (shape, folder) = folder(case);
    Model::read(&shape, &folder, form, &Heap, &mut |_, _| {}).expect("a model")
}

/// PEFT's folder.
fn adapter(case: &str, shape: &Shape) -> (LoraSettings, Adapter) {
    let config = json(&format!("{case}/adapter_config.json"));
    let targets = config["target_modules"].as_array().expect("targets");
    let targets: Vec<Proj> =
        Proj::ALL.into_iter().filter(|p| targets.iter().any(|t| t.as_str() == Some(p.name()))).collect();
    let settings = LoraSettings {
        rank: config["r"].as_u64().expect("a rank") as usize,
        alpha: config["lora_alpha"].as_f64().expect("alpha"),
        dropout: 0.0,
        targets,
        root_scale: false,
        seed: 0,
    };
    let stored = tensors(&format!("{case}/adapter_model.safetensors"));
    let name = |module: &str, half: &str| format!("base_model.model.{module}.{half}.weight");
    let modules: Vec<String> = stored
        .keys()
        .filter_map(|key| key.strip_prefix("base_model.model.")?.strip_suffix(".lora_A.weight").map(str::to_owned))
        .collect();
    let pairs: Vec<PairValues<'_>> = modules
        .iter()
        .map(|module| PairValues {
            module,
            a: &stored[&name(module, "lora_A")].values,
            b: &stored[&name(module, "lora_B")].values,
        })
        .collect();
    let adapter = Adapter::from_tensors(shape, settings.clone(), &pairs, &Heap).expect("an adapter");
    (settings, adapter)
}

fn floats_of(buf: &Buf) -> &[f32] {
    buf.view().cpu::<f32>().expect("f32")
}

/// Largest difference; of two lists as long as each other.
fn largest_off(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}
