//! Products with an adapter's matrices, thin on one side: what a wide matrix is multiplied by or summed against has only
//! a few rows. `gemm` fills its register tiles half or less there; these read the wide matrix once for several of the
//! thin one's rows.
//!
//! Sums go over lanes of fixed number and blocks of fixed length, so they depend on shapes alone.

use rayon::prelude::*;

use super::clock::{Work, running};
use super::matmul::Shared;
use super::shape::{expect, product, rows as count_rows};
use super::spread::blocks;
use super::vector::wide;
use super::{View, ViewMut};
use crate::text::Result;

/// Rows of a thin matrix up to which these kernels are the faster ones.
pub const THIN: usize = 32;

const LANES: usize = 16;
/// Rows of x, and of the thin matrix, that one tile takes.
const TILE: usize = 4;
/// Rows of x that a task takes.
const ROWS: usize = 32;

/// y = alpha · x·mᵀ: `y` `[n, thin]`, `x` `[n, k]`, `m` `[thin, k]`.
pub fn thin_product(y: ViewMut<'_>, x: View<'_>, m: View<'_>, thin: usize, alpha: f32) -> Result<()> {
    let _clock = running(Work::ThinProducts);
    let (y, x, m) = (y.cpu::<f32>()?, x.cpu::<f32>()?, m.cpu::<f32>()?);
    let k = count_rows("m", m.len(), thin)?;
    let n = count_rows("x", x.len(), k)?;
    expect("y", y.len(), product("y", n, thin)?)?;
    blocks(y, ROWS * thin, |start, y| {
        let x = &x[start / thin * k..][..y.len() / thin * k];
        wide!(multiply(y, x, m, (k, thin), alpha));
    });
    Ok(())
}

#[inline(always)]
fn multiply(y: &mut [f32], x: &[f32], m: &[f32], (k, thin): (usize, usize), alpha: f32) {
    let (mut x, mut y) = (x, y);
    while y.len() >= TILE * thin {
        let (four, rest) = x.split_at(TILE * k);
        let (out, left) = y.split_at_mut(TILE * thin);
        multiply_rows::<TILE>(out, four, m, (k, thin), alpha);
        (x, y) = (rest, left);
    }
    for (y, x) in y.chunks_exact_mut(thin).zip(x.chunks_exact(k)) {
        multiply_rows::<1>(y, x, m, (k, thin), alpha);
    }
}

#[inline(always)]
fn multiply_rows<const R: usize>(y: &mut [f32], x: &[f32], m: &[f32], (k, thin): (usize, usize), alpha: f32) {
    let mut put = |row: usize, col: usize, sum: f32| y[row * thin + col] = alpha * sum;
    let mut col = 0;
    while col + TILE <= thin {
        let sums = tile::<R, TILE>(x, &m[col * k..], k);
        (0..R).for_each(|r| (0..TILE).for_each(|c| put(r, col + c, sums[r][c])));
        col += TILE;
    }
    for col in col..thin {
        let sums = tile::<R, 1>(x, &m[col * k..], k);
        (0..R).for_each(|r| put(r, col, sums[r][0]));
    }
}

/// Every dot product of `R` rows of `x` with `C` rows of `m`, rows of `k`. What a sum comes to does not depend on the
/// tile it is made in.
#[inline(always)]
fn tile<const R: usize, const C: usize>(x: &[f32], m: &[f32], k: usize) -> [[f32; C]; R] {
    let x: [&[f32]; R] = std::array::from_fn(|r| &x[r * k..][..k]);
    let m: [&[f32]; C] = std::array::from_fn(|c| &m[c * k..][..k]);
    let mut lanes = [[[0.0f32; LANES]; C]; R];
    let whole = k / LANES * LANES;
    let mut at = 0;
    while at < whole {
        let x: [&[f32; LANES]; R] = std::array::from_fn(|r| lane(x[r], at));
        let m: [&[f32; LANES]; C] = std::array::from_fn(|c| lane(m[c], at));
        for r in 0..R {
            for c in 0..C {
                for l in 0..LANES {
                    lanes[r][c][l] = x[r][l].mul_add(m[c][l], lanes[r][c][l]);
                }
            }
        }
        at += LANES;
    }
    for l in 0..k - whole {
        for r in 0..R {
            for c in 0..C {
                lanes[r][c][l] = x[r][whole + l].mul_add(m[c][whole + l], lanes[r][c][l]);
            }
        }
    }
    lanes.map(|row| row.map(fold))
}

#[inline(always)]
fn lane(x: &[f32], at: usize) -> &[f32; LANES] {
    x[at..].first_chunk().unwrap_or(&[0.0; LANES])
}

#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Columns of x that one task sums, and rows whose sum is made in registers before it is added.
const COLUMNS: usize = 64;
const DEPTH: usize = 128;

/// g += alpha · lᵀ·x: `g` `[thin, k]`, `l` `[n, thin]`, `x` `[n, k]`.
pub fn thin_sum(g: ViewMut<'_>, l: View<'_>, x: View<'_>, thin: usize, alpha: f32) -> Result<()> {
    let _clock = running(Work::ThinProducts);
    let (g, l, x) = (g.cpu::<f32>()?, l.cpu::<f32>()?, x.cpu::<f32>()?);
    let k = count_rows("g", g.len(), thin)?;
    let n = count_rows("l", l.len(), thin)?;
    expect("x", x.len(), product("x", n, k)?)?;
    let g = Shared::new(g);
    (0..k.div_ceil(COLUMNS)).into_par_iter().for_each(|task| {
        let (start, cols) = (task * COLUMNS, COLUMNS.min(k - task * COLUMNS));
        // SAFETY: the columns are this task's alone.
        let mut part = unsafe { g.tile(start, thin, cols, k) };
        wide!(sum_columns(l, x, (n, thin, k), start..start + cols, |row, sums| {
            for (g, sum) in part.row(row).iter_mut().zip(sums) {
                *g += alpha * sum;
            }
        }));
    });
    Ok(())
}

/// [`thin_sum`] into a transposed output: g += alpha · xᵀ·l, `g` `[k, thin]`.
pub fn thin_sum_turned(g: ViewMut<'_>, l: View<'_>, x: View<'_>, thin: usize, alpha: f32) -> Result<()> {
    let _clock = running(Work::ThinProducts);
    let (g, l, x) = (g.cpu::<f32>()?, l.cpu::<f32>()?, x.cpu::<f32>()?);
    let k = count_rows("g", g.len(), thin)?;
    let n = count_rows("l", l.len(), thin)?;
    expect("x", x.len(), product("x", n, k)?)?;
    blocks(g, COLUMNS * thin, |at, g| {
        let (start, cols) = (at / thin, g.len() / thin);
        wide!(sum_columns(l, x, (n, thin, k), start..start + cols, |row, sums| {
            for (g, sum) in g.iter_mut().skip(row).step_by(thin).zip(sums) {
                *g += alpha * sum;
            }
        }));
    });
    Ok(())
}

/// Sums of `l[i, j] · x[i, columns]` over blocks of rows i, handed to `add` with their j, block after block.
#[inline(always)]
fn sum_columns(
    l: &[f32],
    x: &[f32],
    (n, thin, k): (usize, usize, usize),
    columns: std::ops::Range<usize>,
    mut add: impl FnMut(usize, &[f32]),
) {
    let cols = columns.len();
    for first in (0..n).step_by(DEPTH) {
        let rows = first..n.min(first + DEPTH);
        for j in (0..thin).step_by(TILE) {
            let tall = TILE.min(thin - j);
            let mut sums = [[0.0f32; COLUMNS]; TILE];
            if tall == TILE && cols == COLUMNS {
                for i in rows.clone() {
                    let x: &[f32; COLUMNS] = x[i * k + columns.start..].first_chunk().unwrap_or(&[0.0; COLUMNS]);
                    let l: &[f32; TILE] = l[i * thin + j..].first_chunk().unwrap_or(&[0.0; TILE]);
                    for t in 0..TILE {
                        for c in 0..COLUMNS {
                            sums[t][c] = l[t].mul_add(x[c], sums[t][c]);
                        }
                    }
                }
            } else {
                for i in rows.clone() {
                    let (x, l) = (&x[i * k + columns.start..][..cols], &l[i * thin + j..][..tall]);
                    for (sums, l) in sums.iter_mut().zip(l) {
                        for (sum, x) in sums.iter_mut().zip(x) {
                            *sum = l.mul_add(*x, *sum);
                        }
                    }
                }
            }
            for (t, sums) in sums.iter().take(tall).enumerate() {
                add(j + t, &sums[..cols]);
            }
        }
    }
}

/// `y` `[cols, rows]` becomes the transpose of `x` `[rows, cols]`; one of the two is thin.
pub fn turn(y: ViewMut<'_>, x: View<'_>, cols: usize) -> Result<()> {
    let (y, x) = (y.cpu::<f32>()?, x.cpu::<f32>()?);
    let rows = count_rows("x", x.len(), cols)?;
    expect("y", y.len(), x.len())?;
    for (col, y) in y.chunks_exact_mut(rows.max(1)).enumerate() {
        for (y, x) in y.iter_mut().zip(x.iter().skip(col).step_by(cols)) {
            *y = *x;
        }
    }
    Ok(())
}
