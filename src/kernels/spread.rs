//! Splitting outputs over threads. Blocks follow from shapes alone and never share an output.

use rayon::prelude::*;

/// Elements of one block: large enough to be worth a thread's wake-up, small enough to stay in its cache.
pub(super) const BLOCK: usize = 1 << 14;

/// Rows of `width` elements that make up about one block.
pub(super) fn rows_per_block(width: usize) -> usize {
    (BLOCK / width.max(1)).max(1)
}

/// Calls `f(start, part)` for consecutive parts of `y`, each `block` elements long but the last.
pub(super) fn blocks<T: Send>(y: &mut [T], block: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if y.len() <= block {
        f(0, y);
    } else {
        y.par_chunks_mut(block).enumerate().for_each(|(i, part)| f(i * block, part));
    }
}

/// [`blocks`] of two outputs that advance together, each by its own step: `f(index, part of y, part of z)`.
pub(super) fn blocks2<T: Send, U: Send>(
    (y, y_block): (&mut [T], usize),
    (z, z_block): (&mut [U], usize),
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    if y.len() <= y_block {
        f(0, y, z);
    } else {
        let parts = (y.par_chunks_mut(y_block), z.par_chunks_mut(z_block));
        parts.into_par_iter().enumerate().for_each(|(i, (y, z))| f(i, y, z));
    }
}
