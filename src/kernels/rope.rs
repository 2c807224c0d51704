//! Rotary position embedding in the half-split convention of transformers: element j of a head's first half turns with
//! element j of its second half.

use super::clock::{Work, running};
use super::shape::{expect, product, wrong};
use super::spread::{blocks, rows_per_block};
use super::vector::wide;
use super::{Buf, Pool, Spec, ViewMut};
use crate::text::Result;

/// Cosines and sines of every angle, each `[positions, head_dim / 2]`.
#[derive(Debug)]
pub struct RopeTable {
    pub cos: Buf,
    pub sin: Buf,
}

impl RopeTable {
    /// What each of the two tables takes.
    pub fn spec(positions: usize, head_dim: usize) -> Spec {
        Spec::f32(&[positions, head_dim / 2])
    }
}

/// Tables for `positions` positions; `inv_freq` has head_dim / 2 entries and `scale` multiplies cosines and sines (1 but
/// for scaling types that temper attention). Angles are f32 products, as in transformers.
pub fn rope_tables(
    inv_freq: &[f32],
    scale: f32,
    positions: usize,
    pool: &dyn Pool,
    holding: &str,
) -> Result<RopeTable> {
    let half = inv_freq.len();
    if half == 0 {
        return Err(wrong("a rotary embedding needs at least one frequency".to_owned()));
    }
    let spec = RopeTable::spec(positions, product("cos", half, 2)?);
    let mut table = RopeTable { cos: pool.take(holding, spec.clone())?, sin: pool.take(holding, spec)? };
    let fill = |out: &mut [f32], f: fn(f64) -> f64| {
        blocks(out, rows_per_block(half) * half, |start, out| {
            for (i, row) in out.chunks_exact_mut(half).enumerate() {
                let position = (start / half + i) as f32;
                for (out, freq) in row.iter_mut().zip(inv_freq) {
                    *out = f(f64::from(position * freq)) as f32 * scale;
                }
            }
        });
    };
    fill(table.cos.view_mut().cpu()?, f64::cos);
    fill(table.sin.view_mut().cpu()?, f64::sin);
    Ok(table)
}

/// Turns the heads of every row of `x` `[n, heads · head_dim]` in place by the angle of the row's position; `inverse`
/// turns back, which is also the gradient's way.
pub fn rope(
    x: ViewMut<'_>,
    table: &RopeTable,
    positions: &[u32],
    heads: usize,
    head_dim: usize,
    inverse: bool,
) -> Result<()> {
    let _clock = running(Work::Rope);
    let x = x.cpu::<f32>()?;
    let (cos, sin) = (table.cos.view().cpu::<f32>()?, table.sin.view().cpu::<f32>()?);
    let half = head_dim / 2;
    if half == 0 || !head_dim.is_multiple_of(2) {
        return Err(wrong(format!("a rotary embedding needs heads of even width, not of {head_dim}")));
    }
    let width = product("x", heads, head_dim)?;
    expect("x", x.len(), product("x", positions.len(), width)?)?;
    expect("sin", sin.len(), cos.len())?;
    let known = cos.len() / half;
    if table.cos.shape().last() != Some(&half) {
        return Err(wrong(format!("the rotary table was made for other heads than of width {head_dim}")));
    }
    if let Some(position) = positions.iter().find(|p| **p as usize >= known) {
        return Err(wrong(format!("position {position} lies beyond the rotary table's {known} positions")));
    }
    if width == 0 {
        return Ok(());
    }
    let sign = if inverse { -1.0f32 } else { 1.0 };
    blocks(x, rows_per_block(width) * width, |start, x| {
        wide!({
            for (row, position) in x.chunks_exact_mut(width).zip(&positions[start / width..]) {
                let at = *position as usize * half;
                let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
                for head in row.chunks_exact_mut(head_dim) {
                    let (first, second) = head.split_at_mut(half);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        let (x1, x2, sin) = (*a, *b, sign * sin);
                        *a = x1 * cos - x2 * sin;
                        *b = x2 * cos + x1 * sin;
                    }
                }
            }
        });
    });
    Ok(())
}
