//! Products with an adapter's matrices, thin on one side: what a wide matrix is multiplied by or summed against has only
//! a few rows. `gemm` fills its register tiles half or less there; these read the wide matrix once for several of the
//! thin one's rows.
//!
//! Every sum goes over the lanes of a vector and blocks of fixed length, so on one machine it depends on shapes alone.

use std::ops::Range;

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
        pulp::Arch::new().dispatch(Multiply { y, x, m, k, thin, alpha });
    });
    Ok(())
}

/// A block of rows of [`thin_product`].
struct Multiply<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
    m: &'a [f32],
    k: usize,
    thin: usize,
    alpha: f32,
}

/// Through vectors of the machine's own width: left to itself, the compiler takes these sums apart.
impl pulp::WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Multiply { y, x, m, k, thin, alpha } = self;
        let tiled = thin / TILE * TILE;
        let blocks = x.chunks_exact(TILE * k);
        let (rest, done) = (blocks.remainder(), blocks.len() * TILE * thin);
        for (y, x) in y.chunks_exact_mut(TILE * thin).zip(blocks) {
            for (col, m) in (0..tiled).step_by(TILE).zip(m.chunks_exact(TILE * k)) {
                let sums = tile(simd, x, m, k);
                for (y, sums) in y.chunks_exact_mut(thin).zip(sums) {
                    for (y, sum) in y[col..].iter_mut().zip(sums) {
                        *y = alpha * sum;
                    }
                }
            }
            for (y, x) in y.chunks_exact_mut(thin).zip(x.chunks_exact(k)) {
                singly(simd, &mut y[tiled..], x, &m[tiled * k..], alpha);
            }
        }
        for (y, x) in y[done..].chunks_exact_mut(thin).zip(rest.chunks_exact(k)) {
            singly(simd, y, x, m, alpha);
        }
    }
}

/// One row's products, one after the other.
#[inline(always)]
fn singly<S: pulp::Simd>(simd: S, y: &mut [f32], x: &[f32], m: &[f32], alpha: f32) {
    let (xs, x_tail) = S::as_simd_f32s(x);
    for (y, m) in y.iter_mut().zip(m.chunks_exact(x.len())) {
        let (ms, m_tail) = S::as_simd_f32s(m);
        let mut sum = simd.splat_f32s(0.0);
        for (x, m) in xs.iter().zip(ms) {
            sum = simd.mul_add_f32s(*x, *m, sum);
        }
        // Zeros stand for what is missing of the last vector; adding their product changes no sum.
        if !x_tail.is_empty() {
            sum = simd.mul_add_f32s(simd.partial_load_f32s(x_tail), simd.partial_load_f32s(m_tail), sum);
        }
        *y = alpha * simd.reduce_sum_f32s(sum);
    }
}

/// Every dot product of four rows with four, each to the bit as alone.
#[inline(always)]
fn tile<S: pulp::Simd>(simd: S, x: &[f32], m: &[f32], k: usize) -> [[f32; TILE]; TILE] {
    let ([x0, x1, x2, x3], x_tails) = quarters::<S>(x, k);
    let ([m0, m1, m2, m3], m_tails) = quarters::<S>(m, k);
    let mut sums = [[simd.splat_f32s(0.0); TILE]; TILE];
    // The rows are walked side by side, so that no bound is checked between them.
    let xs = x0.iter().zip(x1).zip(x2.iter().zip(x3));
    let ms = m0.iter().zip(m1).zip(m2.iter().zip(m3));
    for (((x0, x1), (x2, x3)), ((m0, m1), (m2, m3))) in xs.zip(ms) {
        add_products(simd, &mut sums, [*x0, *x1, *x2, *x3], [*m0, *m1, *m2, *m3]);
    }
    if !x_tails[0].is_empty() {
        let (x, m) = (last(simd, x_tails), last(simd, m_tails));
        add_products(simd, &mut sums, x, m);
    }
    let mut reduced = [[0.0; TILE]; TILE];
    for r in 0..TILE {
        for c in 0..TILE {
            reduced[r][c] = simd.reduce_sum_f32s(sums[r][c]);
        }
    }
    reduced
}

/// The last vector of four rows. (A closure given to `map` would be compiled for a machine without wide vectors.)
#[inline(always)]
fn last<S: pulp::Simd>(simd: S, [a, b, c, d]: [&[f32]; TILE]) -> [S::f32s; TILE] {
    [simd.partial_load_f32s(a), simd.partial_load_f32s(b), simd.partial_load_f32s(c), simd.partial_load_f32s(d)]
}

#[inline(always)]
fn add_products<S: pulp::Simd>(simd: S, sums: &mut [[S::f32s; TILE]; TILE], x: [S::f32s; TILE], m: [S::f32s; TILE]) {
    for r in 0..TILE {
        for c in 0..TILE {
            sums[r][c] = simd.mul_add_f32s(x[r], m[c], sums[r][c]);
        }
    }
}

/// Four rows of `k` as whole vectors and what is left of each.
#[inline(always)]
fn quarters<S: pulp::Simd>(x: &[f32], k: usize) -> ([&[S::f32s]; TILE], [&[f32]; TILE]) {
    let ((a, b), (c, d)) = (x[..2 * k].split_at(k), x[2 * k..4 * k].split_at(k));
    let (a, b, c, d) = (S::as_simd_f32s(a), S::as_simd_f32s(b), S::as_simd_f32s(c), S::as_simd_f32s(d));
    ([a.0, b.0, c.0, d.0], [a.1, b.1, c.1, d.1])
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
    columns: Range<usize>,
    mut add: impl FnMut(usize, &[f32]),
) {
    let mut first = 0;
    while first < n {
        let rows = first..n.min(first + DEPTH);
        let mut j = 0;
        while j < thin {
            let tall = if j + TILE <= thin { TILE } else { 1 };
            if columns.len() < COLUMNS {
                let mut sums = [0.0f32; COLUMNS];
                let sums = &mut sums[..columns.len()];
                for j in j..j + tall {
                    sums.fill(0.0);
                    for i in rows.clone() {
                        for (sum, x) in sums.iter_mut().zip(&x[i * k + columns.start..]) {
                            *sum = l[i * thin + j].mul_add(*x, *sum);
                        }
                    }
                    add(j, sums);
                }
            } else if tall == TILE {
                let sums = strip::<TILE>(l, x, rows.clone(), (thin, k), j, columns.start);
                (0..TILE).for_each(|t| add(j + t, &sums[t]));
            } else {
                add(j, &strip::<1>(l, x, rows.clone(), (thin, k), j, columns.start)[0]);
            }
            j += tall;
        }
        first = rows.end;
    }
}

/// `T` rows of sums over whole columns; as in [`tile`], they stay in registers.
#[inline(always)]
fn strip<const T: usize>(
    l: &[f32],
    x: &[f32],
    rows: Range<usize>,
    (thin, k): (usize, usize),
    j: usize,
    start: usize,
) -> [[f32; COLUMNS]; T] {
    let mut sums = [[0.0f32; COLUMNS]; T];
    let (x, l) = (&x[rows.start * k..rows.end * k], &l[rows.start * thin..rows.end * thin]);
    for (x, l) in x.chunks_exact(k).zip(l.chunks_exact(thin)) {
        let (Some(x), Some(l)) = (x[start..].first_chunk::<COLUMNS>(), l[j..].first_chunk::<T>()) else { break };
        for t in 0..T {
            for c in 0..COLUMNS {
                sums[t][c] = l[t].mul_add(x[c], sums[t][c]);
            }
        }
    }
    sums
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
