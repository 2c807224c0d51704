//! Reading, quantising, and what both take.

use std::cell::RefCell;

use super::*;
use crate::kernels::{Buf, Lent, Pool, Spec};

/// Plain memory that remembers what was taken.
#[derive(Default)]
pub(crate) struct Recorder(pub RefCell<Vec<(String, Spec)>>);

impl Pool for Recorder {
    fn take(&self, holding: &str, spec: Spec) -> Result<Buf> {
        self.0.borrow_mut().push((holding.to_owned(), spec.clone()));
        Heap.take(holding, spec)
    }

    fn count(&self, holding: &str, lent: Lent) -> Result<Lent> {
        self.0.borrow_mut().push((holding.to_owned(), lent.spec().clone()));
        Ok(lent)
    }
}

impl Recorder {
    /// Bytes by holding.
    pub fn totals(&self) -> std::collections::BTreeMap<String, u64> {
        totals(self.0.borrow().iter().map(|(holding, spec)| (holding.as_str(), spec)))
    }
}

pub(crate) fn totals<'a>(list: impl Iterator<Item = (&'a str, &'a Spec)>) -> std::collections::BTreeMap<String, u64> {
    let mut sums = std::collections::BTreeMap::new();
    for (holding, spec) in list {
        *sums.entry(holding.to_owned()).or_insert(0) += spec.bytes().expect("a size");
    }
    sums
}

fn forms() -> Vec<Form> {
    let dense = Form::dense(Float::F32);
    vec![
        dense,
        Form::dense(Float::Bf16),
        Form::dense(Float::F16),
        dense.quantised(64, false),
        dense.quantised(128, true),
        Form::dense(Float::Bf16).quantised(64, true),
    ]
}

pub(super) fn values(model: &Model) -> Vec<Vec<f32>> {
    let value = |(tensor, weight): (Tensor, &Weight)| {
        let len = tensor.shape.iter().product();
        let mut buf = Heap.take("", Spec::f32(&[len])).expect("memory");
        weight.write(0..len, buf.view_mut()).expect("values");
        buf.view().cpu::<f32>().expect("f32").to_vec()
    };
    model.shape.tensors().iter().cloned().zip(&model.tensors).map(value).collect()
}

#[test]
fn a_model_takes_what_was_planned() {
    for shape in [tied(), biased(), qwen()] {
        for form in forms() {
            let pool = Recorder::default();
            let source = Lively { seed: 1, shape: shape.clone() };
            let mut done = 0;
            Model::read(&shape, &source, form, &pool, &mut |_, n| done += n).expect("a model");
            assert_eq!(done, shape.parameters());
            let mut taken = pool.totals();
            // Of the scales that are doubled only one tensor's are there at a time.
            if let Some(scales) = taken.get_mut("block scales") {
                let of = |(holding, spec): &(String, Spec)| {
                    (holding == "block scales").then(|| spec.bytes().expect("bytes"))
                };
                *scales = pool.0.borrow().iter().filter_map(of).max().expect("scales");
            }
            let none = Mapping::default();
            let held = holdings(&shape, form, &none).expect("a plan");
            let beside = reading(&shape, form, &none).expect("a plan");
            assert_eq!(taken, totals(held.iter().chain(&beside).map(|(holding, spec)| (*holding, spec))), "{form:?}");
        }
    }
}

#[test]
fn quantising_a_resident_model_is_reading_it_quantised() {
    for shape in [tied(), biased(), qwen()] {
        for float in [Float::F32, Float::F16] {
            for double in [false, true] {
                let dense = lively(&shape, Form::dense(float));
                let before = values(&dense);
                let quantised = dense.quantise(64, double, &Heap, &mut |_, _| {}).expect("a model");
                let read = Lively { seed: 3, shape: shape.clone() };
                struct Narrowed<'a>(&'a Lively, Float);
                impl WeightSource for Narrowed<'_> {
                    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
                        self.0.read(name, rows, out)?;
                        if self.1 == Float::F16 && !name.contains("norm") && !name.ends_with("bias") {
                            out.iter_mut().for_each(|x| *x = half::f16::from_f32(*x).to_f32());
                        }
                        Ok(())
                    }
                }
                let form = Form::dense(float).quantised(64, double);
                let direct =
                    Model::read(&shape, &Narrowed(&read, float), form, &Heap, &mut |_, _| {}).expect("a model");
                assert_eq!(quantised.form, form);
                let after = values(&quantised);
                assert!(after == values(&direct), "{float:?}");
                // Linear layers have changed a little, the rest not at all.
                for (tensor, (a, b)) in shape.tensors().iter().zip(before.iter().zip(&after)) {
                    let off = a.iter().zip(b).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
                    let linear = matches!(tensor.role, Role::Linear(_));
                    assert!(if linear { off > 0.0 && off < 0.3 } else { off == 0.0 }, "{}: {off}", tensor.name);
                }
                let again = quantised.quantise(64, double, &Heap, &mut |_, _| {});
                assert_eq!(again.err().expect("a fault").code, "model.quantised");
            }
        }
    }
}

#[test]
fn a_random_start_follows_seed_and_place_alone() {
    let shape = biased();
    let (one, two) = (Random::new(7, &shape), Random::new(8, &shape));
    let name = "model.layers.1.mlp.down_proj.weight";
    let read = |source: &Random, rows: Range<usize>| {
        let mut out = vec![0f32; rows.len() * shape.ffn];
        source.read(name, rows, &mut out).expect("values");
        out
    };
    let whole = read(&one, 0..24);
    assert_eq!(whole[5 * shape.ffn..9 * shape.ffn], read(&one, 5..9)[..]);
    assert_ne!(whole, read(&two, 0..24));
    let deviation = (whole.iter().map(|x| x * x).sum::<f32>() / whole.len() as f32).sqrt();
    assert!((deviation / (0.02 / 6f32.sqrt()) - 1.0).abs() < 0.15, "{deviation}");
    assert_eq!(one.read("model.norms.weight", 0..1, &mut [0.0]).expect_err("a fault").code, "model.missing_tensor");
}
