//! AdamW with moments of 8 bits a value (Dettmers et al., "8-bit optimizers via block-wise quantization", 2022), in the
//! formula and order of operations of bitsandbytes.

use rayon::prelude::*;

use super::optimizer::{AdamW, Rates};
use super::shape::expect;
use super::{View, ViewMut, dynamic};
use crate::text::Result;

/// Values that share a scale.
pub const MOMENT_BLOCK: usize = 256;

/// A parameter with fewer values keeps its moments in f32, as in bitsandbytes.
pub const FEWEST_IN_8_BITS: usize = 4096;

/// A moment of n values: codes `[n]` u8, and a scale for each block of [`MOMENT_BLOCK`], `[⌈n / 256⌉]` f32. All zero, as
/// a fresh buffer is, they stand for zeros.
pub struct Moment8<'a> {
    pub codes: ViewMut<'a>,
    pub absmax: ViewMut<'a>,
}

/// [`adamw`](super::adamw) with the first moment in the signed dynamic type and the second in the unsigned. A block is
/// restored, updated and quantised again before the next, so no more than a block of either is ever wide.
#[allow(clippy::too_many_arguments, reason = "the operands of the formula")]
pub fn adamw8(
    p: ViewMut<'_>,
    m: Moment8<'_>,
    v: Moment8<'_>,
    g: View<'_>,
    lr: f64,
    step: u64,
    clip: f32,
    settings: &AdamW,
) -> Result<()> {
    let (p, g) = (p.cpu::<f32>()?, g.cpu::<f32>()?);
    let (mc, ms) = (m.codes.cpu::<u8>()?, m.absmax.cpu::<f32>()?);
    let (vc, vs) = (v.codes.cpu::<u8>()?, v.absmax.cpu::<f32>()?);
    for (name, len) in [("m", mc.len()), ("v", vc.len()), ("g", g.len())] {
        expect(name, len, p.len())?;
    }
    for (name, len) in [("m's scales", ms.len()), ("v's scales", vs.len())] {
        expect(name, len, p.len().div_ceil(MOMENT_BLOCK))?;
    }
    let Rates { keep, beta1, toward, beta2, square, correction, eps, size } = settings.rates(lr, step)?;
    let (first, second) = (dynamic::signed(), dynamic::unsigned());
    let m = mc.par_chunks_mut(MOMENT_BLOCK).zip(ms);
    let v = vc.par_chunks_mut(MOMENT_BLOCK).zip(vs);
    let pg = p.par_chunks_mut(MOMENT_BLOCK).zip(g.par_chunks(MOMENT_BLOCK));
    pg.zip(m.zip(v)).for_each(|((p, g), ((mc, ms), (vc, vs)))| {
        let (mut wide_m, mut wide_v) = ([0f32; MOMENT_BLOCK], [0f32; MOMENT_BLOCK]);
        let (wide_m, wide_v) = (&mut wide_m[..p.len()], &mut wide_v[..p.len()]);
        dynamic::restore(first, mc, *ms, wide_m);
        dynamic::restore(second, vc, *vs, wide_v);
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(wide_m.iter_mut()).zip(wide_v.iter_mut()) {
            let g = g * clip;
            *m = *m * beta1 + toward * g;
            *v = *v * beta2 + square * g * g;
            *p *= keep;
            *p += size * *m / (v.sqrt() / correction + eps);
        }
        *ms = dynamic::quantise(first, wide_m, mc);
        *vs = dynamic::quantise(second, wide_v, vc);
    });
    Ok(())
}
