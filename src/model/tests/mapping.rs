//! Weights used where they lie: what is held, what is not, and that no bit differs.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::kernels::{Lent, Spec};

/// A model's tensors as a file of one type holds them.
struct Stored {
    float: Float,
    tensors: HashMap<String, Arc<Vec<u32>>>,
}

/// Shared bytes that lie four bytes behind a multiple of eight, as tensors in files do: where the heap puts nothing.
struct Shared(Arc<Vec<u32>>, usize);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[4..4 + self.1]
    }
}

impl Stored {
    fn new(shape: &Shape, float: Float) -> Stored {
        let lively = Lively { seed: 3, shape: shape.clone() };
        let store = |tensor: &Tensor| {
            let (rows, cols) = tensor.dims();
            let mut values = vec![0f32; rows * cols];
            lively.read(&tensor.name, 0..rows, &mut values).expect("values");
            let mut bytes = vec![0u8; 4];
            for value in values {
                match float {
                    Float::F32 => bytes.extend(value.to_le_bytes()),
                    Float::Bf16 => bytes.extend(half::bf16::from_f32(value).to_le_bytes()),
                    Float::F16 => bytes.extend(half::f16::from_f32(value).to_le_bytes()),
                }
            }
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let words = bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
            (tensor.name.clone(), Arc::new(words.collect()))
        };
        Stored { float, tensors: shape.tensors().iter().map(store).collect() }
    }

    fn lent(&self, name: &str, shape: &[usize]) -> Lent {
        let spec = Spec::new(shape, self.float.dtype());
        let len = spec.bytes().expect("a size") as usize;
        Lent::new(Box::new(Shared(self.tensors[name].clone(), len)), spec).expect("aligned")
    }
}

impl WeightSource for Stored {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let (from, size) = (rows.start * (out.len() / rows.len()), self.float.dtype().size_in_bytes());
        let bytes: &[u8] = bytemuck::cast_slice(&self.tensors[name]);
        for (value, bytes) in out.iter_mut().zip(bytes[4 + from * size..].chunks(size)) {
            *value = match (self.float, bytes) {
                (Float::Bf16, [a, b]) => half::bf16::from_le_bytes([*a, *b]).to_f32(),
                (Float::F16, [a, b]) => half::f16::from_le_bytes([*a, *b]).to_f32(),
                (_, bytes) => f32::from_le_bytes(bytes.try_into().expect("four bytes")),
            };
        }
        Ok(())
    }

    fn lends(&self, _name: &str, float: Float) -> bool {
        float == self.float
    }

    fn lend(&self, name: &str, float: Float, shape: &[usize]) -> Result<Option<Lent>> {
        Ok(self.lends(name, float).then(|| self.lent(name, shape)))
    }
}

fn forms(float: Float) -> [Form; 2] {
    [Form::dense(float), Form::dense(float).quantised(64, true)]
}

#[test]
fn what_is_held_and_what_is_counted_is_what_was_planned() {
    for shape in [tied(), biased(), qwen()] {
        for form in [Float::F32, Float::Bf16, Float::F16].into_iter().flat_map(forms) {
            let stored = Stored::new(&shape, form.embeddings);
            let mapping = Mapping::of(&shape, form, &stored);
            assert_eq!(mapping, Mapping::stored_as(&shape, form, form.embeddings));
            let pool = Recorder::default();
            let mut done = 0;
            let model =
                Model::read_mapped(&shape, &stored, form, &mapping, &pool, &mut |_, n| done += n).expect("a model");
            assert_eq!(done, shape.parameters());
            let held = holdings(&shape, form, &mapping).expect("a plan");
            let beside = reading(&shape, form, &mapping).expect("a plan");
            let mut taken = pool.totals();
            if let Some(scales) = taken.get_mut("block scales") {
                *scales = totals(beside.iter().map(|(holding, spec)| (*holding, spec)))["block scales"];
            }
            assert_eq!(taken, totals(held.iter().chain(&beside).map(|(holding, spec)| (*holding, spec))), "{form:?}");
            // Only what the form holds in another type than the file, and blocks, is copied.
            let copied = |name: &str| taken.get(name).copied().unwrap_or(0);
            assert_eq!(copied("embeddings"), 0);
            assert_eq!(copied("norms") == 0, form.embeddings == Float::F32);
            assert_eq!(copied("weights") == 0, matches!(form.weights, Held::Float(_)));
            let parts = mapping.parts(&shape, form).expect("sizes");
            assert_eq!(parts.mapped, taken[MAPPED]);
            assert_eq!(parts.held, copied("weights") + copied("norms"));
            drop(model);
        }
    }
}

#[test]
fn another_type_is_copied() {
    let shape = tied();
    let stored = Stored::new(&shape, Float::Bf16);
    let mapping = Mapping::of(&shape, Form::dense(Float::F32), &stored);
    assert!(mapping.is_empty());
    // Norms are computed with in f32, so of f16 weights beside f32 norms the norms alone would be mapped.
    let parts = Mapping::stored_as(&shape, Form::dense(Float::F16), Float::F32).parts(&shape, Form::dense(Float::F16));
    let parts = parts.expect("sizes");
    assert!(parts.mapped > 0 && parts.matrices == 0, "{parts:?}");
}

/// Logits of a model, and the values of all its tensors.
fn seen(model: &Model) -> (Vec<f32>, Vec<Vec<f32>>) {
    let ids: Vec<u32> = (0..17).map(|at| at % 23).collect();
    (logits(model, &ids, &Heap).expect("logits"), super::held::values(model))
}

#[test]
fn a_mapped_model_computes_the_same_bits() {
    for shape in [tied(), biased()] {
        for form in [Float::F32, Float::Bf16, Float::F16].into_iter().flat_map(forms) {
            let stored = Stored::new(&shape, form.embeddings);
            let mapping = Mapping::of(&shape, form, &stored);
            let copied = Model::read(&shape, &stored, form, &Heap, &mut |_, _| {}).expect("a model");
            let mapped = Model::read_mapped(&shape, &stored, form, &mapping, &Heap, &mut |_, _| {}).expect("a model");
            assert!(mapped.tensors.iter().any(|weight| matches!(weight, Weight::Mapped(_))));
            assert!(seen(&copied) == seen(&mapped), "{form:?}");
            if let Held::Float(_) = form.weights {
                let quantise = |model: Model| model.quantise(64, false, &Heap, &mut |_, _| {}).expect("a model");
                assert!(seen(&quantise(copied)) == seen(&quantise(mapped)), "{form:?}");
            }
        }
    }
}

/// Quantising gives a dense tensor's bytes back as soon as its blocks stand, and a file gives none back.
#[test]
fn blocks_of_a_mapped_model_grow_without_end() {
    let shape = tied();
    let form = Form::dense(Float::F32);
    let growth = |mapping: &Mapping| growth(&shape, form, 64, false, mapping).expect("a size");
    let blocks = holdings(&shape, form.quantised(64, false), &Mapping::default()).expect("a plan");
    let blocks: u64 =
        blocks.iter().filter(|(name, _)| *name == "weights").map(|(_, s)| s.bytes().expect("bytes")).sum();
    let all = Mapping::stored_as(&shape, form, Float::F32);
    assert_eq!(growth(&all), blocks);
    assert!(growth(&Mapping::default()) < blocks / 4);
}
