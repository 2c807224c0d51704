//! What `gemm` allocates while it multiplies, from this machine's caches and the sizes of a product.
//!
//! It packs factors that lie across its grain into a buffer of the call's own, and keeps one L2 cache's worth a thread for
//! good. Planned here by its own rules (`gemm-common` 0.19) for the instruction set that it takes.

use std::cell::RefCell;
use std::collections::HashMap;

use gemm_common::cache::{CACHE_INFO, kernel_params};
use gemm_common::gemm::CACHELINE_ALIGN;

use super::cut::{Cost, FEWEST_ROWS, PACK, READ, cut};

/// A product c = a·b of row-major output, and which of its factors is read as its transpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a_turned: bool,
    pub b_turned: bool,
    /// Whether the depth `k` counts tokens, of which a batch may have fewer. `m` may always be less.
    pub ragged: bool,
}

/// Whose instruction set decides what a product packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// That of the machine at hand.
    Here,
    /// One that is not known: what packs the most is planned.
    Another,
}

/// A register tile of `gemm` in f32. Seen from it the output is column-major: the columns of a row-major one are its rows.
#[derive(Debug, Clone, Copy)]
struct Tile {
    /// Floats of a register.
    lanes: usize,
    /// Columns of the output.
    cols: usize,
    /// Rows of the output.
    rows: usize,
    /// Columns from which on the left factor is packed where it lies across the grain, and where it does not.
    across: usize,
    along: usize,
}

const fn tile(lanes: usize, registers: usize, rows: usize, along: usize) -> Tile {
    let cols = lanes * registers;
    Tile { lanes, cols, rows, across: 2 * cols, along: along * cols }
}

const AVX512: Tile = tile(16, 4, 6, 128);
const FMA: Tile = tile(8, 2, 6, 128);
const NEON: Tile = tile(4, 4, 4, 2);
const SCALAR: Tile = tile(1, 2, 4, 128);

impl Processor {
    fn tiles(self) -> &'static [Tile] {
        match self {
            Processor::Here => here(),
            Processor::Another => &[AVX512, FMA, NEON, SCALAR],
        }
    }
}

/// The one that `gemm` takes here, asked for as it asks.
#[cfg(target_arch = "x86_64")]
fn here() -> &'static [Tile] {
    match (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("fma")) {
        (true, _) => &[AVX512],
        (false, true) => &[FMA],
        (false, false) => &[SCALAR],
    }
}

#[cfg(target_arch = "aarch64")]
fn here() -> &'static [Tile] {
    if std::arch::is_aarch64_feature_detected!("neon") { &[NEON] } else { &[SCALAR] }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn here() -> &'static [Tile] {
    &[SCALAR]
}

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
pub fn packing(products: &[Product], threads: usize, processor: Processor) -> u64 {
    products.iter().map(|product| product.packing(threads, processor)).max().unwrap_or(0)
}

impl Product {
    /// Asked again for every stage and candidate of a plan, of models that are the same; working it out takes a microsecond.
    fn packing(&self, threads: usize, processor: Processor) -> u64 {
        thread_local! {
            static KNOWN: RefCell<HashMap<(Product, usize, Processor), u64>> = RefCell::default();
        }
        let key = (*self, threads, processor);
        let known = KNOWN.with_borrow(|known| known.get(&key).copied());
        known.unwrap_or_else(|| {
            let bytes = processor.tiles().iter().map(|tile| self.packed(threads, *tile)).max().unwrap_or(0);
            KNOWN.with_borrow_mut(|known| {
                // Rows of every length at once are nothing to remember.
                if known.len() >= 4096 {
                    known.clear();
                }
                known.insert(key, bytes)
            });
            bytes
        })
    }

    fn packed(&self, threads: usize, tile: Tile) -> u64 {
        let Product { m, n, k, a_turned, b_turned, .. } = *self;
        let cost = Cost { row: if a_turned { PACK } else { READ }, col: if b_turned { PACK } else { READ } };
        let Some(cut) = cut(m, n, threads, cost) else { return self.call(m, n, k, tile) };
        let parts = cut.parts(m, n);
        let most = parts.iter().map(|(_, rows, _, cols)| self.call(*rows, *cols, k, tile)).max().unwrap_or(0);
        // A batch of few rows is not cut, and packs all columns at once.
        let whole = self.call(m.min(FEWEST_ROWS - 1), n, k, tile);
        most.saturating_mul(threads.min(parts.len()) as u64).max(whole)
    }

    /// One call, by the rules of `gemm_basic_generic`.
    fn call(&self, rows: usize, cols: usize, k: usize, tile: Tile) -> u64 {
        let (rows, cols, k) = (rows.max(1), cols.max(1), k.max(1));
        let depth = |k| kernel_params(cols, rows, k, tile.cols, tile.rows, 4).kc;
        let kc = match cols <= 64 && rows <= 64 {
            true => k.min(512),
            // A depth is cut into equal parts, so that a shorter one may be cut into longer: at most what a very long one is.
            false if self.ragged => k.min(depth(1 << 30)),
            false => depth(k),
        };
        // Beyond this it packs the right factor piece by piece, into the slabs.
        let whole = cols <= 2 * 8 * tile.cols;
        let right = whole && (self.b_turned || !cols.is_multiple_of(tile.lanes));
        let left = cols > if self.a_turned { tile.across } else { tile.along };
        let floats = |on: bool, length: usize| if on { kc.saturating_mul(length) } else { 0 };
        let floats = floats(right, cols.next_multiple_of(tile.cols))
            .saturating_add(floats(left, rows.next_multiple_of(tile.rows)));
        // Both parts and the block itself begin at a cache line.
        (floats as u64).saturating_mul(4).saturating_add(3 * CACHELINE_ALIGN as u64)
    }
}
