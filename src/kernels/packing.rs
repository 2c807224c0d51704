//! What `gemm` allocates while it multiplies, from this machine's caches and the sizes of a product.
//!
//! It packs factors that lie across its grain into a buffer of the call's own, and keeps one L2 cache's worth a thread for
//! good. Planned here by its own rules (`gemm-common` 0.19), a little above where they depend on the instruction set.

use std::cell::RefCell;
use std::collections::HashMap;

use gemm_common::cache::{CACHE_INFO, kernel_params};

use super::cut::{Cost, PACK, READ, cut};

/// A product c = a·b of row-major output, and which of its factors is read as its transpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a_turned: bool,
    pub b_turned: bool,
}

/// Register tiles of `gemm` in f32, by instruction set: rows of its left factor, columns of its right.
const TILES: [(usize, usize); 3] = [(48, 8), (24, 4), (16, 4)];

/// Bytes that `threads` threads keep for packing once they have multiplied, the calling one beside them.
pub fn slabs(threads: usize) -> u64 {
    (threads as u64 + 1).saturating_mul(CACHE_INFO[1].cache_bytes as u64)
}

/// Makes every thread take its slab now, so that it is not in one phase's measure and another's not.
pub fn warm() {
    let take = || gemm_common::gemm::L2_SLAB.with(|_| ());
    take();
    rayon::broadcast(|_| take());
}

/// The most bytes that any of the products takes while it runs.
pub fn packing(products: &[Product], threads: usize) -> u64 {
    products.iter().map(|product| product.packing(threads)).max().unwrap_or(0)
}

impl Product {
    /// Asked again for every stage and candidate of a plan, of models that are the same; working it out takes a microsecond.
    fn packing(&self, threads: usize) -> u64 {
        thread_local! {
            static KNOWN: RefCell<HashMap<(Product, usize), u64>> = RefCell::default();
        }
        let known = KNOWN.with_borrow(|known| known.get(&(*self, threads)).copied());
        known.unwrap_or_else(|| {
            let bytes = self.packed(threads);
            KNOWN.with_borrow_mut(|known| {
                // Rows of every length at once are nothing to remember.
                if known.len() >= 4096 {
                    known.clear();
                }
                known.insert((*self, threads), bytes)
            });
            bytes
        })
    }

    fn packed(&self, threads: usize) -> u64 {
        let Product { m, n, k, a_turned, b_turned } = *self;
        let cost = Cost { row: if a_turned { PACK } else { READ }, col: if b_turned { PACK } else { READ } };
        let Some(cut) = cut(m, n, threads, cost) else { return self.call(m, n, k) };
        let parts = cut.parts(m, n);
        let most = parts.iter().map(|(_, rows, _, cols)| self.call(*rows, *cols, k)).max().unwrap_or(0);
        most.saturating_mul(threads.min(parts.len()) as u64)
    }

    /// One call. Seen from `gemm`, whose output is column-major, the columns of c are its rows.
    fn call(&self, rows: usize, cols: usize, k: usize) -> u64 {
        let bytes = TILES.map(|(mr, nr)| {
            let params = kernel_params(cols.max(1), rows.max(1), k.max(1), mr, nr, 4);
            let kc = params.kc.max(k.min(512));
            let left = if self.b_turned || !cols.is_multiple_of(16) { cols.next_multiple_of(mr) } else { 0 };
            // Beyond this it packs the left factor piece by piece, into the slabs.
            let left = if cols <= 2 * params.mc.max(8 * mr) { left } else { 0 };
            let wide = cols > gemm_common::gemm::get_rhs_packing_threshold().saturating_mul(mr);
            let right = if self.a_turned || wide { rows.next_multiple_of(nr) } else { 0 };
            4 * (kc as u64).saturating_mul((left + right) as u64)
        });
        // Two alignments of a cache line.
        bytes.into_iter().max().unwrap_or(0) + 256
    }
}
