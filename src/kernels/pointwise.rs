//! Operations element by element.

use super::clock::{Work, running};
use super::norm::sum_rows;
use super::shape::{expect, rows, wrong};
use super::spread::{BLOCK, blocks, blocks2, rows_per_block};
use super::vector::{sigmoid, wide};
use super::{Element, View, ViewMut};
use crate::text::Result;

/// a = silu(g) · u, silu(g) = g / (1 + e⁻ᵍ).
pub fn swiglu(a: ViewMut<'_>, g: View<'_>, u: View<'_>) -> Result<()> {
    let _clock = running(Work::Swiglu);
    let (a, g, u) = (a.cpu::<f32>()?, g.cpu::<f32>()?, u.cpu::<f32>()?);
    expect("g", g.len(), a.len())?;
    expect("u", u.len(), a.len())?;
    blocks(a, BLOCK, |at, a| {
        wide!({
            for ((a, &g), &u) in a.iter_mut().zip(&g[at..]).zip(&u[at..]) {
                *a = g * sigmoid(g) * u;
            }
        });
    });
    Ok(())
}

/// Gradients of [`swiglu`]: du = da · silu(g), dg = da · u · σ(g) · (1 + g · (1 − σ(g))).
pub fn swiglu_backward(dg: ViewMut<'_>, du: ViewMut<'_>, da: View<'_>, g: View<'_>, u: View<'_>) -> Result<()> {
    let _clock = running(Work::Swiglu);
    let (dg, du) = (dg.cpu::<f32>()?, du.cpu::<f32>()?);
    let (da, g, u) = (da.cpu::<f32>()?, g.cpu::<f32>()?, u.cpu::<f32>()?);
    for (name, len) in [("du", du.len()), ("da", da.len()), ("g", g.len()), ("u", u.len())] {
        expect(name, len, dg.len())?;
    }
    blocks2((dg, BLOCK), (du, BLOCK), |i, dg, du| {
        let at = i * BLOCK;
        wide!({
            let inputs = da[at..].iter().zip(&g[at..]).zip(&u[at..]);
            for ((dg, du), ((&da, &g), &u)) in dg.iter_mut().zip(du.iter_mut()).zip(inputs) {
                let s = sigmoid(g);
                *du = da * (g * s);
                *dg = da * u * (s * (1.0 + g * (1.0 - s)));
            }
        });
    });
    Ok(())
}

/// y += x
pub fn add(y: ViewMut<'_>, x: View<'_>) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
    expect("x", x.len(), y.len())?;
    blocks(y, BLOCK, |at, y| {
        wide!({
            for (y, x) in y.iter_mut().zip(&x[at..]) {
                *y += x;
            }
        });
    });
    Ok(())
}

/// Adds `b` `[width]` to every row of `y` `[n, width]`.
pub fn add_bias(y: ViewMut<'_>, b: View<'_>) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (y, b) = (y.cpu::<f32>()?, b.cpu::<f32>()?);
    let width = b.len();
    rows("y", y.len(), width)?;
    blocks(y, rows_per_block(width) * width, |_, y| {
        wide!({
            for row in y.chunks_exact_mut(width) {
                for (y, b) in row.iter_mut().zip(b) {
                    *y += b;
                }
            }
        });
    });
    Ok(())
}

/// Adds the column sums of `dy` `[n, width]` to `db` `[width]`.
pub fn bias_backward(db: ViewMut<'_>, dy: View<'_>) -> Result<()> {
    let _clock = running(Work::Elementwise);
    let (db, dy) = (db.cpu::<f32>()?, dy.cpu::<f32>()?);
    let width = db.len();
    let n = rows("dy", dy.len(), width)?;
    sum_rows(
        db,
        n,
        #[inline(always)]
        |i, columns, sums| {
            for (sum, dy) in sums.iter_mut().zip(&dy[i * width + columns..]) {
                *sum += dy;
            }
        },
    );
    Ok(())
}

/// y = s · y
pub fn scale(y: ViewMut<'_>, s: f32) -> Result<()> {
    blocks(y.cpu::<f32>()?, BLOCK, |_, y| wide!(y.iter_mut().for_each(|y| *y *= s)));
    Ok(())
}

/// Sets every element.
pub fn fill(y: ViewMut<'_>, v: f32) -> Result<()> {
    let _clock = running(Work::Elementwise);
    blocks(y.cpu::<f32>()?, BLOCK, |_, y| y.fill(v));
    Ok(())
}

/// Copies elements of any type into a buffer of the same type.
pub fn copy(y: ViewMut<'_>, x: View<'_>) -> Result<()> {
    let _clock = running(Work::Elementwise);
    use candle_core::DType;
    fn go<T: Element>(y: ViewMut<'_>, x: View<'_>) -> Result<()> {
        let (y, x) = (y.cpu::<T>()?, x.cpu::<T>()?);
        expect("x", x.len(), y.len())?;
        blocks(y, BLOCK, |at, y| y.copy_from_slice(&x[at..at + y.len()]));
        Ok(())
    }
    match x.dtype() {
        DType::F32 => go::<f32>(y, x),
        DType::BF16 => go::<half::bf16>(y, x),
        DType::F16 => go::<half::f16>(y, x),
        DType::U8 => go::<u8>(y, x),
        DType::U32 => go::<u32>(y, x),
        other => Err(wrong(format!("{other:?} elements cannot be copied"))),
    }
}
