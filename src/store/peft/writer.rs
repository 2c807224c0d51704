//! An adapter's folder, written.

use std::path::Path;

use super::{AdapterConfig, CONFIG, Half, WEIGHTS, WRAPPER};
use crate::store::safetensors::{SafetensorsWriter, TensorSink, header_bytes};
use crate::store::types::{StoredType, TensorInfo};
use crate::store::writer::pretty;
use crate::store::{AtomicFolder, Identity};
use crate::text::{Fault, Result};

const METADATA: [(&str, &str); 1] = [("format", "pt")];

/// A module that gets an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterShape {
    /// Path in the base model: `model.layers.0.self_attn.q_proj`.
    pub module: String,
    pub inputs: usize,
    pub outputs: usize,
}

/// Everything that an adapter's folder will hold but the values.
#[derive(Debug, Clone)]
pub struct AdapterPlan {
    pub config: AdapterConfig,
    /// In the order of writing.
    pub modules: Vec<AdapterShape>,
    /// f32, f16 or bf16.
    pub dtype: StoredType,
    /// More files for the folder: name, bytes.
    pub texts: Vec<(String, Vec<u8>)>,
}

impl AdapterPlan {
    pub fn new(config: AdapterConfig, modules: Vec<AdapterShape>) -> Self {
        AdapterPlan { config, modules, dtype: StoredType::F32, texts: Vec::new() }
    }

    /// A and B of every module, in the order of writing.
    fn tensors(&self) -> Vec<TensorInfo> {
        let rank = self.config.rank;
        let tensors = self.modules.iter().flat_map(|m| {
            let key = |half: &str| format!("{WRAPPER}{}.{half}.weight", m.module);
            [
                TensorInfo::new(key("lora_A"), &[rank, m.inputs], self.dtype),
                TensorInfo::new(key("lora_B"), &[m.outputs, rank], self.dtype),
            ]
        });
        tensors.collect()
    }

    /// Bytes of the folder's files: what the disk must have.
    pub fn planned_bytes(&self) -> Result<u64> {
        let tensors = self.tensors();
        let mut total = header_bytes(&tensors, &METADATA)?.len() as u64 + pretty(&self.config.to_json()).len() as u64;
        total += self.texts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        for tensor in &tensors {
            total = total
                .checked_add(tensor.bytes()?)
                .ok_or_else(|| Fault::new("size.overflow", "the adapter is too large to address"))?;
        }
        Ok(total)
    }
}

/// An adapter that is being written; its folder takes its name on [`commit`](AdapterWriter::commit).
#[derive(Debug)]
pub struct AdapterWriter {
    folder: AtomicFolder,
    weights: SafetensorsWriter,
}

impl AdapterWriter {
    /// Errors: those of [`AtomicFolder::create`](crate::store::AtomicFolder::create), `output.*`, `disk.full`.
    pub fn create(path: &Path, overwrite: bool, plan: &AdapterPlan) -> Result<Self> {
        let tensors = plan.tensors();
        if tensors.is_empty() {
            return Err(Fault::new("output.empty", "an adapter without modules cannot be written").at(path));
        }
        let folder = AtomicFolder::create(path, overwrite)?;
        folder.text(CONFIG, &pretty(&plan.config.to_json()))?;
        for (name, bytes) in &plan.texts {
            folder.text(name, bytes)?;
        }
        let weights = SafetensorsWriter::create(folder.file(WEIGHTS)?, &tensors, &METADATA)?;
        Ok(AdapterWriter { folder, weights })
    }

    /// What the folder will be known by; see [`AtomicFolder::identity`].
    pub fn identity(&self) -> Option<Identity> {
        self.folder.identity()
    }

    /// Writes the next matrix: A then B of each module, in the plan's order.
    pub fn next(
        &mut self,
        module: &str,
        half: Half,
        fill: impl FnOnce(&mut TensorSink<'_>) -> Result<()>,
    ) -> Result<()> {
        let half = match half {
            Half::A => "lora_A",
            Half::B => "lora_B",
        };
        self.weights.tensor(&format!("{WRAPPER}{module}.{half}.weight"), fill)
    }

    /// Writes both matrices of the next module, row-major: `a` rank × inputs, `b` outputs × rank.
    pub fn module(&mut self, module: &str, a: &[f32], b: &[f32]) -> Result<()> {
        self.next(module, Half::A, |sink| sink.write_f32(a))?;
        self.next(module, Half::B, |sink| sink.write_f32(b))
    }

    /// Gives the folder its name. Errors: `output.order` while a matrix is missing, and those of writing.
    pub fn commit(self) -> Result<()> {
        self.weights.commit()?;
        self.folder.commit()
    }
}
