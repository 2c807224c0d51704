//! Small models with lively weights, and what is held against them.

mod gradients;
mod held;
mod infer;
mod mapping;
mod merge;
mod oracle;
mod shapes;

pub(crate) use held::{Recorder, totals};

use std::ops::Range;

use super::*;
use crate::kernels::{Heap, Key, Pool, normal, uniform};
use crate::text::Result;

/// Weights at a scale at which every part of the model matters: norms near 1, biases that are not 0.
pub(crate) struct Lively {
    pub seed: u64,
    pub shape: Shape,
}

impl WeightSource for Lively {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let tensor = self.shape.tensors().iter().find(|t| t.name == name).cloned().expect("a known tensor");
        let (mean, deviation) = match tensor.role {
            Role::Norm => (1.0, 0.1),
            Role::Bias(_) => (0.0, 0.1),
            Role::Embedding => (0.0, 0.8),
            _ => (0.0, 0.25),
        };
        let cols = tensor.dims().1;
        let key = Key::new(self.seed).with(source::name_stream(name));
        for (i, value) in out.iter_mut().enumerate() {
            *value = mean + deviation * normal(key, (rows.start * cols + i) as u64);
        }
        Ok(())
    }
}

/// Tied, grouped queries, heads as wide as they usually are.
pub(crate) fn tied() -> Shape {
    Shape {
        family: Family::Llama,
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        ffn: 48,
        vocab: 40,
        tied: true,
        attention_bias: false,
        mlp_bias: false,
        norm_eps: 1e-5,
        rope: Rope { theta: 10000.0, scaling: Scaling::None },
        max_positions: 64,
    }
}

/// Untied, with every bias, heads of another width than hidden / heads, and stretched positions.
pub(crate) fn biased() -> Shape {
    Shape {
        family: Family::Llama,
        hidden: 24,
        layers: 3,
        heads: 3,
        kv_heads: 1,
        head_dim: 10,
        ffn: 20,
        vocab: 31,
        tied: false,
        attention_bias: true,
        mlp_bias: true,
        rope: Rope { theta: 500.0, scaling: Scaling::Llama3 { factor: 4.0, low: 1.0, high: 4.0, original: 16.0 } },
        ..tied()
    }
}

pub(crate) fn lively(shape: &Shape, form: Form) -> Model {
    let source = Lively { seed: 3, shape: shape.clone() };
    Model::read(shape, &source, form, &Heap, &mut |_, _| {}).expect("a model")
}

pub(crate) fn lora(targets: &[Proj]) -> LoraSettings {
    LoraSettings { rank: 3, alpha: 6.0, dropout: 0.0, targets: targets.to_vec(), root_scale: false, seed: 5 }
}

/// An adapter with a random B, so that every matrix has a gradient.
pub(crate) fn lively_adapter(shape: &Shape, settings: LoraSettings) -> Adapter {
    let mut adapter = Adapter::new(shape, settings, &Heap).expect("an adapter");
    for (at, matrix) in adapter.matrices_mut().into_iter().enumerate().filter(|(at, _)| at % 2 == 1) {
        crate::kernels::fill_normal(matrix.view_mut(), 0.2, Key::new(at as u64)).expect("values");
    }
    adapter
}

/// A micro-batch of rows of the given lengths, about a third of whose labels are masked.
pub(crate) struct Rows {
    pub ids: Vec<u32>,
    pub starts: Vec<u32>,
    pub labels: Vec<u32>,
}

impl Rows {
    pub fn new(seed: u64, lengths: &[usize], vocab: usize) -> Rows {
        let mut rows = Rows { ids: Vec::new(), starts: vec![0], labels: Vec::new() };
        for (row, length) in lengths.iter().enumerate() {
            let key = Key::new(seed).with(row as u64);
            let id = |at: usize| (uniform(key, at as u64) * vocab as f32) as u32;
            let masked = |at: usize| uniform(key.with(1), at as u64) < 0.3;
            for at in 0..*length {
                rows.ids.push(id(at));
                rows.labels.push(if at + 1 == *length || masked(at) { NOT_COUNTED } else { id(at + 1) });
            }
            rows.starts.push(rows.ids.len() as u32);
        }
        rows
    }

    pub fn batch(&self) -> TokenBatch<'_> {
        TokenBatch { ids: &self.ids, starts: &self.starts, labels: &self.labels }
    }
}

/// Biases on q, k and v alone.
pub(crate) fn qwen() -> Shape {
    Shape { family: Family::Qwen2, mlp_bias: false, ..biased() }
}
