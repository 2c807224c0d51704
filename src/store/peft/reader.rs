//! An adapter's folder, read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AdapterConfig, CONFIG, WEIGHTS, WRAPPER};
use crate::store::StoredType;
use crate::store::near::near_path;
use crate::store::safetensors::{TensorFile, TensorRecord};
use crate::store::types::shape_text;
use crate::text::{Fault, Result};

/// The two matrices of an adapter: y = W x + scale · B (A x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Half {
    /// rank × inputs
    A,
    /// outputs × rank
    B,
}

/// A key of the file and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterKey {
    /// As stored: `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
    pub key: String,
    /// Path in the base model: `model.layers.0.self_attn.q_proj`.
    pub module: String,
    pub half: Half,
    pub shape: Vec<usize>,
    pub dtype: StoredType,
}

/// A module that the adapter changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterModule {
    /// Path in the base model, the one its weight has without `.weight`.
    pub module: String,
    pub inputs: usize,
    pub outputs: usize,
    a: TensorRecord,
    b: TensorRecord,
}

/// An opened adapter: both halves of every module are there and fit together. Whether the base model has these modules, in
/// these shapes, is the caller's to judge.
#[derive(Debug)]
pub struct AdapterSource {
    path: PathBuf,
    config: AdapterConfig,
    file: TensorFile,
    keys: Vec<AdapterKey>,
    modules: Vec<AdapterModule>,
}

impl AdapterSource {
    /// Errors: `file.missing` with near names, `peft.no_adapter`, `peft.pickle`, `peft.unknown_key`, `peft.half_missing`,
    /// `peft.shape`, `peft.unsupported`, `config.*`, `json.*`, `safetensors.*`.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Err(no_folder(path));
        }
        if !path.join(CONFIG).is_file() {
            let fault = Fault::new("peft.no_adapter", format!("`{}` has no `{CONFIG}`", path.display())).at(path);
            return Err(if path.join("config.json").is_file() {
                fault.note("it holds a model, not an adapter")
            } else {
                fault.note(format!("an adapter's folder holds `{CONFIG}` and `{WEIGHTS}`"))
            });
        }
        let config = AdapterConfig::read(&path.join(CONFIG))?;
        let weights = path.join(WEIGHTS);
        if !weights.is_file() && path.join("adapter_model.bin").is_file() {
            let what = format!("the weights in `{}` are `adapter_model.bin`, which is not read", path.display());
            return Err(Fault::new("peft.pickle", what)
                .at(path)
                .note("a PyTorch file is a program that runs when it is loaded; safetensors files hold numbers alone")
                .help("load it with PEFT and call `save_pretrained` to get `adapter_model.safetensors`"));
        }
        let file = TensorFile::open(&weights)?;
        let keys = file.tensors().iter().map(|t| parse_key(&weights, t)).collect::<Result<Vec<_>>>()?;
        let modules = pair(&weights, &config, &keys, file.tensors())?;
        Ok(AdapterSource { path: path.to_owned(), config, file, keys, modules })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn config(&self) -> &AdapterConfig {
        &self.config
    }

    /// Every key of the file, in its order.
    pub fn keys(&self) -> &[AdapterKey] {
        &self.keys
    }

    /// The modules, by path; layers in the order of their numbers.
    pub fn modules(&self) -> &[AdapterModule] {
        &self.modules
    }

    /// Fills `out` with a whole matrix, row-major: rank × inputs of A, outputs × rank of B.
    pub fn read(&self, module: &AdapterModule, half: Half, out: &mut [f32]) -> Result<()> {
        let tensor = match half {
            Half::A => &module.a,
            Half::B => &module.b,
        };
        if out.len() as u64 != crate::store::types::elements(&tensor.shape).unwrap_or(0) {
            return Err(Fault::new("model.range", format!("`{}` was read into a buffer of another size", tensor.name)));
        }
        self.file.read_f32(tensor, 0, out)
    }

    /// Every file that was read, for hashing.
    pub fn inputs(&self) -> Vec<PathBuf> {
        vec![self.path.join(CONFIG), self.path.join(WEIGHTS)]
    }

    /// Size of the file that holds the weights.
    pub fn bytes_on_disk(&self) -> u64 {
        self.file.bytes_on_disk()
    }
}

fn no_folder(path: &Path) -> Fault {
    if path.exists() {
        return Fault::new("peft.no_adapter", format!("`{}` is a file; an adapter is a folder", path.display()))
            .at(path);
    }
    let fault = Fault::new("file.missing", format!("there is no adapter at `{}`", path.display())).at(path);
    match near_path(path) {
        Some(near) => fault.help(format!("did you mean `{}`?", near.display())),
        None => fault,
    }
}

fn parse_key(path: &Path, tensor: &TensorRecord) -> Result<AdapterKey> {
    let unknown = |why: &str| {
        Fault::new("peft.unknown_key", format!("`{}` in `{}` is no LoRA weight", tensor.name, path.display()))
            .at(path)
            .note(why)
    };
    let rest = tensor
        .name
        .strip_prefix(WRAPPER)
        .ok_or_else(|| unknown("keys have the form `base_model.model.<module>.lora_A.weight`"))?;
    let (module, half) = if let Some(module) = rest.strip_suffix(".lora_A.weight") {
        (module, Half::A)
    } else if let Some(module) = rest.strip_suffix(".lora_B.weight") {
        (module, Half::B)
    } else {
        let why = if rest.contains("lora_embedding_") {
            "adapters on embeddings are not known here"
        } else if rest.contains("lora_magnitude_vector") {
            "DoRA is not known here"
        } else if rest.ends_with(".bias") {
            "biases in adapters are not known here"
        } else {
            "`.lora_A.weight` and `.lora_B.weight` are the endings that are read"
        };
        return Err(unknown(why));
    };
    if module.is_empty() {
        return Err(unknown("it names no module"));
    }
    Ok(AdapterKey {
        key: tensor.name.clone(),
        module: module.to_owned(),
        half,
        shape: tensor.shape.clone(),
        dtype: tensor.dtype,
    })
}

/// Puts the halves together and holds their shapes to the rank.
fn pair(
    path: &Path,
    config: &AdapterConfig,
    keys: &[AdapterKey],
    tensors: &[TensorRecord],
) -> Result<Vec<AdapterModule>> {
    let mut halves: BTreeMap<&str, [Option<&TensorRecord>; 2]> = BTreeMap::new();
    for (key, tensor) in keys.iter().zip(tensors) {
        if !tensor.dtype.is_readable() {
            let what = format!("`{}` holds {} values, not weights", key.key, tensor.dtype);
            return Err(Fault::new("model.unreadable_type", what).at(path));
        }
        let [a, b] = halves.entry(&key.module).or_default();
        *(if key.half == Half::A { a } else { b }) = Some(tensor);
    }
    if halves.is_empty() {
        return Err(Fault::new("peft.no_adapter", format!("`{}` holds no tensor", path.display())).at(path));
    }
    let mut modules = Vec::with_capacity(halves.len());
    for (module, pair) in halves {
        let [Some(a), Some(b)] = pair else {
            let absent = if pair[0].is_none() { "lora_A" } else { "lora_B" };
            let what = format!("`{module}` has no `{absent}.weight` in `{}`", path.display());
            return Err(Fault::new("peft.half_missing", what).at(path));
        };
        let (&[rank_a, inputs], &[outputs, rank_b]) = (a.shape.as_slice(), b.shape.as_slice()) else {
            return Err(shapes(path, config, module, a, b));
        };
        if rank_a != config.rank || rank_b != config.rank || inputs == 0 || outputs == 0 {
            return Err(shapes(path, config, module, a, b));
        }
        modules.push(AdapterModule { module: module.to_owned(), inputs, outputs, a: a.clone(), b: b.clone() });
    }
    modules.sort_by_cached_key(|m| crate::store::source::layer_order(&format!("{}.", m.module)));
    Ok(modules)
}

fn shapes(path: &Path, config: &AdapterConfig, module: &str, a: &TensorRecord, b: &TensorRecord) -> Fault {
    Fault::new("peft.shape", format!("the adapter of `{module}` does not have rank {}", config.rank))
        .at(path)
        .note(format!("A is {}, where rank × inputs was expected", shape_text(&a.shape)))
        .note(format!("B is {}, where outputs × rank was expected", shape_text(&b.shape)))
        .note(format!("`r` is {} in `{CONFIG}`", config.rank))
}
