//! Root-mean-square norm, as in Llama: y = w · (x · rstd), rstd = 1/√(mean(x²) + eps), row by row.

use super::clock::{Work, running};
use super::shape::{expect, rows};
use super::spread::{blocks, blocks2, rows_per_block};
use super::vector::{dot, dot3, wide};
use super::{View, ViewMut};
use crate::text::Result;

/// Normalises the rows of `x` `[n, width]` into `y` and keeps `rstd` `[n]` for the way back; `w` is `[width]`.
pub fn rms_norm(y: ViewMut<'_>, rstd: ViewMut<'_>, x: View<'_>, w: View<'_>, eps: f32) -> Result<()> {
    let _clock = running(Work::Norm);
    let (y, rstd, x, w) = (y.cpu::<f32>()?, rstd.cpu::<f32>()?, x.cpu::<f32>()?, w.cpu::<f32>()?);
    let width = w.len();
    let n = rows("x", x.len(), width)?;
    expect("y", y.len(), x.len())?;
    expect("rstd", rstd.len(), n)?;
    let step = rows_per_block(width);
    blocks2((y, step * width), (rstd, step), |i, y, rstd| {
        wide!({
            let x = x[i * step * width..].chunks_exact(width);
            for ((y, x), rstd) in y.chunks_exact_mut(width).zip(x).zip(rstd.iter_mut()) {
                *rstd = 1.0 / (dot(x, x) / width as f32 + eps).sqrt();
                apply(y, x, *rstd, w);
            }
        });
    });
    Ok(())
}

/// `y` of [`rms_norm`] once more, to the bit, from the `rstd` it kept.
pub fn rms_norm_apply(y: ViewMut<'_>, x: View<'_>, rstd: View<'_>, w: View<'_>) -> Result<()> {
    let _clock = running(Work::Norm);
    let (y, x, rstd, w) = (y.cpu::<f32>()?, x.cpu::<f32>()?, rstd.cpu::<f32>()?, w.cpu::<f32>()?);
    let width = w.len();
    let n = rows("x", x.len(), width)?;
    expect("y", y.len(), x.len())?;
    expect("rstd", rstd.len(), n)?;
    blocks(y, rows_per_block(width) * width, |start, y| {
        wide!({
            let x = x[start..].chunks_exact(width);
            for ((y, x), rstd) in y.chunks_exact_mut(width).zip(x).zip(&rstd[start / width..]) {
                apply(y, x, *rstd, w);
            }
        });
    });
    Ok(())
}

#[inline(always)]
fn apply(y: &mut [f32], x: &[f32], rstd: f32, w: &[f32]) {
    for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
        *y = w * (x * rstd);
    }
}

/// Adds the gradients of [`rms_norm`] to `dx` `[n, width]` and, where given, `dw` `[width]`.
///
/// dx += rstd · (w·dy − x · rstd²/width · Σ w·dy·x) and dw += Σ over rows of dy · x · rstd.
pub fn rms_norm_backward(
    dx: ViewMut<'_>,
    dw: Option<ViewMut<'_>>,
    dy: View<'_>,
    x: View<'_>,
    rstd: View<'_>,
    w: View<'_>,
) -> Result<()> {
    let _clock = running(Work::Norm);
    let (dx, dy, x) = (dx.cpu::<f32>()?, dy.cpu::<f32>()?, x.cpu::<f32>()?);
    let (rstd, w) = (rstd.cpu::<f32>()?, w.cpu::<f32>()?);
    let width = w.len();
    let n = rows("x", x.len(), width)?;
    expect("dx", dx.len(), x.len())?;
    expect("dy", dy.len(), x.len())?;
    expect("rstd", rstd.len(), n)?;
    let dw = dw.map(|dw| dw.cpu::<f32>()).transpose()?;
    if let Some(dw) = &dw {
        expect("dw", dw.len(), width)?;
    }
    blocks(dx, rows_per_block(width) * width, |start, dx| {
        wide!({
            let dy = dy[start..].chunks_exact(width);
            let x = x[start..].chunks_exact(width);
            for (((dx, dy), x), &r) in dx.chunks_exact_mut(width).zip(dy).zip(x).zip(&rstd[start / width..]) {
                let pull = dot3(w, dy, x) * (r * r / width as f32);
                for (((dx, dy), x), w) in dx.iter_mut().zip(dy).zip(x).zip(w) {
                    *dx += r * (w * dy - x * pull);
                }
            }
        });
    });
    if let Some(dw) = dw {
        sum_rows(
            dw,
            n,
            #[inline(always)]
            |i, columns, sums| {
                let at = i * width + columns;
                let r = rstd[i];
                for ((sum, dy), x) in sums.iter_mut().zip(&dy[at..]).zip(&x[at..]) {
                    *sum += dy * x * r;
                }
            },
        );
    }
    Ok(())
}

/// Columns that one task sums.
const COLUMNS: usize = 128;
/// Rows summed in f32 before they are added to the total, to keep rounding from growing with the rows.
const ROWS: usize = 64;

/// Adds to each column of `total` a sum over `n` rows; `add(row, first column, sums)` adds one row's terms.
///
/// Columns are independent, and the rows of a column are taken in order, whatever the number of threads.
pub(super) fn sum_rows(total: &mut [f32], n: usize, add: impl Fn(usize, usize, &mut [f32]) + Sync) {
    blocks(total, COLUMNS, |columns, total| {
        wide!({
            let mut chunk = [0.0f32; COLUMNS];
            let mut sum = [0.0f32; COLUMNS];
            for start in (0..n).step_by(ROWS) {
                chunk.fill(0.0);
                for row in start..n.min(start + ROWS) {
                    add(row, columns, &mut chunk[..total.len()]);
                }
                for (sum, chunk) in sum.iter_mut().zip(&chunk) {
                    *sum += chunk;
                }
            }
            for (total, sum) in total.iter_mut().zip(&sum) {
                *total += sum;
            }
        });
    });
}
