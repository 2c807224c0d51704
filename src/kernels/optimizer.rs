//! AdamW, in torch's formula and order of operations, and the norm that clipping needs.

use rayon::prelude::*;

use super::clock::{Work, running};
use super::shape::{expect, wrong};
use super::spread::BLOCK;
use super::vector::{self, wide};
use super::{View, ViewMut};
use crate::text::Result;

/// Settings of AdamW, as torch names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
}

impl Default for AdamW {
    /// torch's defaults, but without weight decay.
    fn default() -> Self {
        AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// The scalars of one step, f64 until they meet a tensor, as in torch.
pub(super) struct Rates {
    /// 1 − lr · decay.
    pub keep: f32,
    pub beta1: f32,
    /// 1 − β₁.
    pub toward: f32,
    pub beta2: f32,
    /// 1 − β₂.
    pub square: f32,
    /// √(1 − β₂ᵗ).
    pub correction: f32,
    pub eps: f32,
    /// −lr / (1 − β₁ᵗ).
    pub size: f32,
}

impl AdamW {
    /// Of the `step`th step, counted from 1.
    pub(super) fn rates(&self, lr: f64, step: u64) -> Result<Rates> {
        if step == 0 {
            return Err(wrong("optimizer steps count from 1".to_owned()));
        }
        let t = step as f64;
        Ok(Rates {
            keep: (1.0 - lr * self.weight_decay) as f32,
            beta1: self.beta1 as f32,
            toward: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            square: (1.0 - self.beta2) as f32,
            correction: (1.0 - self.beta2.powf(t)).sqrt() as f32,
            eps: self.eps as f32,
            size: (-(lr / (1.0 - self.beta1.powf(t)))) as f32,
        })
    }
}

/// One update of the parameters `p` with their moments `m` and `v`, all f32 and of one length.
///
/// `step` counts from 1; `clip` multiplies the gradient first (1 for none). Decay is decoupled and taken before the
/// step: p ← p·(1 − lr·decay), then p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε).
#[allow(clippy::too_many_arguments, reason = "the operands of the formula")]
pub fn adamw(
    p: ViewMut<'_>,
    m: ViewMut<'_>,
    v: ViewMut<'_>,
    g: View<'_>,
    lr: f64,
    step: u64,
    clip: f32,
    settings: &AdamW,
) -> Result<()> {
    let _clock = running(Work::Optimizer);
    let (p, m, v, g) = (p.cpu::<f32>()?, m.cpu::<f32>()?, v.cpu::<f32>()?, g.cpu::<f32>()?);
    for (name, len) in [("m", m.len()), ("v", v.len()), ("g", g.len())] {
        expect(name, len, p.len())?;
    }
    let Rates { keep, toward, beta2, square, correction, eps, size, .. } = settings.rates(lr, step)?;
    let first = p.par_chunks_mut(BLOCK).zip(m.par_chunks_mut(BLOCK));
    first.zip(v.par_chunks_mut(BLOCK).zip(g.par_chunks(BLOCK))).for_each(|((p, m), (v, g))| {
        wide!({
            for (((p, m), v), g) in p.iter_mut().zip(m.iter_mut()).zip(v.iter_mut()).zip(g) {
                let g = g * clip;
                *p *= keep;
                *m += toward * (g - *m);
                *v = *v * beta2 + square * g * g;
                *p += size * *m / (v.sqrt() / correction + eps);
            }
        });
    });
    Ok(())
}

/// Σ gᵢ² in f64. Not finite where an element is not.
pub fn sum_squares(g: View<'_>) -> Result<f64> {
    let _clock = running(Work::Optimizer);
    /// Elements of one partial sum: fixed, so that the order of additions is.
    const CHUNK: usize = 1 << 16;
    let parts: Vec<f64> = g.cpu::<f32>()?.par_chunks(CHUNK).map(|part| wide!(vector::sum_squares(part))).collect();
    Ok(parts.iter().sum())
}
