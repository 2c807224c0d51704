//! Dropout whose mask is never stored: it follows from a key and the element's index, forwards and backwards.

use super::clock::{Work, running};
use super::random::{BATCH, Key, uniforms};
use super::shape::{expect, wrong};
use super::spread::{BLOCK, blocks};
use super::vector::wide;
use super::{View, ViewMut};
use crate::text::Result;

/// yᵢ = xᵢ / (1 − p) where uniform(i) ≥ p, else 0. The gradient is the same call on dy with the same key.
pub fn dropout(y: ViewMut<'_>, x: View<'_>, p: f32, key: Key) -> Result<()> {
    let _clock = running(Work::Elementwise);
    apply(y, x, p, key, false)
}

/// [`dropout`] added to what is there: yᵢ += …
pub fn dropout_add(y: ViewMut<'_>, x: View<'_>, p: f32, key: Key) -> Result<()> {
    let _clock = running(Work::Elementwise);
    apply(y, x, p, key, true)
}

fn apply(y: ViewMut<'_>, x: View<'_>, p: f32, key: Key, adding: bool) -> Result<()> {
    let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
    expect("x", x.len(), y.len())?;
    if !(0.0..1.0).contains(&p) {
        return Err(wrong(format!("a dropout probability lies in [0, 1), which {p} does not")));
    }
    let scale = 1.0 / (1.0 - p);
    blocks(y, BLOCK, |at, y| {
        wide!({
            for (i, part) in y.chunks_mut(BATCH).enumerate() {
                let start = at + i * BATCH;
                let u = uniforms(key, start as u64);
                for ((y, x), u) in part.iter_mut().zip(&x[start..]).zip(u) {
                    let kept = if u >= p { x * scale } else { 0.0 };
                    *y = if adding { *y + kept } else { kept };
                }
            }
        });
    });
    Ok(())
}
