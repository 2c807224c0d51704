//! Low-rank adapters on linear layers: `y = W x + s · B (A x)`.

use super::parts::{Make, Planned, plan, take};
use super::shape::Shape;
use super::source::name_stream;
use super::tensors::Proj;
use crate::kernels::{self, Buf, Key, Pool, Spec};
use crate::text::{Fault, Result};

/// What an adapter is, before it has values.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraSettings {
    /// Columns of B and rows of A.
    pub rank: usize,
    pub alpha: f64,
    /// Part of the adapter's input that is dropped in training.
    pub dropout: f32,
    /// Linear layers that get one, in every block.
    pub targets: Vec<Proj>,
    /// rsLoRA: scaled by `alpha / √rank` instead of `alpha / rank`.
    pub root_scale: bool,
    /// Of A's first values.
    pub seed: u64,
}

impl LoraSettings {
    pub fn scale(&self) -> f32 {
        let rank = self.rank as f64;
        (self.alpha / if self.root_scale { rank.sqrt() } else { rank }) as f32
    }

    fn validate(&self) -> Result<()> {
        if self.rank == 0 || self.targets.is_empty() {
            return Err(Fault::new("adapter.empty", "an adapter of rank 0 or on no layer has nothing to train"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Fault::new(
                "adapter.dropout",
                format!("a dropout of {} leaves nothing of the adapter's input", self.dropout),
            )
            .help("dropout=0.05"));
        }
        Ok(())
    }
}

/// A of `[rank, in]` and B of `[out, rank]`, f32.
pub struct Pair<T = Buf> {
    pub a: T,
    pub b: T,
}

/// The adapters of a model: a pair for each targeted layer of each block.
pub struct Adapter {
    pub settings: LoraSettings,
    /// `s` of `y = W x + s · B (A x)`.
    pub scale: f32,
    /// By layer, then by [`Proj::ALL`].
    pairs: Vec<Option<Pair>>,
}

/// A pair of matrices read from a file: module path, A, B.
pub struct PairValues<'a> {
    /// `model.layers.0.self_attn.q_proj`
    pub module: &'a str,
    /// `[rank, in]`, row-major.
    pub a: &'a [f32],
    /// `[out, rank]`, row-major.
    pub b: &'a [f32],
}

impl Adapter {
    /// A fresh adapter: A uniform within `±1/√in` (kaiming with a = √5), B zero, so that training starts at the model.
    pub fn new(shape: &Shape, settings: LoraSettings, pool: &dyn Pool) -> Result<Adapter> {
        settings.validate()?;
        let mut pairs = take(pool, |make| Self::make(shape, &settings, make))?;
        for (at, pair) in pairs.iter_mut().enumerate() {
            let Some(pair) = pair else { continue };
            let (layer, proj) = place(at);
            let bound = (1.0 / (proj.dims(shape).1 as f64).sqrt()) as f32;
            let key = Key::new(settings.seed).with(name_stream(&proj.module(layer)));
            kernels::fill_uniform(pair.a.view_mut(), -bound, bound, key)?;
        }
        Ok(Adapter { scale: settings.scale(), settings, pairs })
    }

    /// An adapter with given values; every target of every block has to be there, and nothing else.
    pub fn from_tensors(
        shape: &Shape,
        settings: LoraSettings,
        values: &[PairValues<'_>],
        pool: &dyn Pool,
    ) -> Result<Adapter> {
        settings.validate()?;
        let mut pairs = take(pool, |make| Self::make(shape, &settings, make))?;
        let mut seen = vec![false; pairs.len()];
        for value in values {
            let at = Proj::from_module(value.module)
                .filter(|(layer, _)| *layer < shape.layers)
                .map(|(layer, proj)| layer * Proj::ALL.len() + proj.index());
            let Some((at, pair)) = at.and_then(|at| Some((at, pairs.get_mut(at)?.as_mut()?))) else {
                return Err(Fault::new(
                    "adapter.unknown_module",
                    format!("the adapter has values for `{}`, which the model has no place for", value.module),
                )
                .note("an adapter whose keys do not fit would silently leave the base model as it was"));
            };
            for (name, given, buf) in [("lora_A", value.a, &mut pair.a), ("lora_B", value.b, &mut pair.b)] {
                if given.len() != buf.len() {
                    return Err(Fault::new(
                        "adapter.shape",
                        format!(
                            "{name} of `{}` has {} values, and rank {} on this model makes {}",
                            value.module,
                            given.len(),
                            settings.rank,
                            buf.len()
                        ),
                    )
                    .help("check that the adapter was trained from this base model"));
                }
                buf.view_mut().cpu::<f32>()?.copy_from_slice(given);
            }
            if let Some(seen) = seen.get_mut(at) {
                *seen = true;
            }
        }
        let absent = pairs.iter().zip(&seen).position(|(pair, seen)| pair.is_some() && !seen);
        if let Some(at) = absent {
            let (layer, proj) = place(at);
            return Err(Fault::new(
                "adapter.missing_module",
                format!("the adapter lacks values for `{}`, which its config names", proj.module(layer)),
            ));
        }
        Ok(Adapter { scale: settings.scale(), settings, pairs })
    }

    /// What an adapter takes, all of it under `adapter`.
    pub fn planned(shape: &Shape, settings: &LoraSettings) -> Result<Planned> {
        plan(|make| Self::make(shape, settings, make))
    }

    pub(crate) fn make<T>(shape: &Shape, settings: &LoraSettings, make: Make<'_, T>) -> Result<Vec<Option<Pair<T>>>> {
        Self::make_as(shape, settings, "adapter", make)
    }

    /// Buffers like the adapter's matrices (gradients, moments) for another holding.
    pub(crate) fn make_as<T>(
        shape: &Shape,
        settings: &LoraSettings,
        holding: &'static str,
        make: Make<'_, T>,
    ) -> Result<Vec<Option<Pair<T>>>> {
        let mut pairs = Vec::with_capacity(shape.layers * Proj::ALL.len());
        for _ in 0..shape.layers {
            for proj in Proj::ALL {
                if !settings.targets.contains(&proj) {
                    pairs.push(None);
                    continue;
                }
                let (out, into) = proj.dims(shape);
                let a = make(holding, Spec::f32(&[settings.rank, into]))?;
                let b = make(holding, Spec::f32(&[out, settings.rank]))?;
                pairs.push(Some(Pair { a, b }));
            }
        }
        Ok(pairs)
    }

    pub fn pair(&self, layer: usize, proj: Proj) -> Option<&Pair> {
        self.pairs.get(layer * Proj::ALL.len() + proj.index())?.as_ref()
    }

    /// Every pair with its module path (`model.layers.0.self_attn.q_proj`), in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (String, &Pair)> {
        self.pairs.iter().enumerate().filter_map(|(at, pair)| {
            let (layer, proj) = place(at);
            Some((proj.module(layer), pair.as_ref()?))
        })
    }

    /// Every matrix with its name in PEFT's files, less the prefix: `model.layers.0.mlp.up_proj.lora_A.weight`.
    pub(crate) fn matrices(&self) -> Vec<(String, &Buf)> {
        self.iter()
            .flat_map(|(module, pair)| {
                [(format!("{module}.lora_A.weight"), &pair.a), (format!("{module}.lora_B.weight"), &pair.b)]
            })
            .collect()
    }

    /// The same matrices, to change.
    pub(crate) fn matrices_mut(&mut self) -> Vec<&mut Buf> {
        self.pairs.iter_mut().flatten().flat_map(|pair| [&mut pair.a, &mut pair.b]).collect()
    }
}

/// Layer and projection of an index of `pairs`.
fn place(at: usize) -> (usize, Proj) {
    let count = Proj::ALL.len();
    (at / count, Proj::ALL[at % count])
}
