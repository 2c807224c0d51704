//! The products of matrices of a pass through the model: what they pack is planned from their sizes.

use super::batch::Extent;
use super::shape::Shape;
use super::tensors::Proj;
use super::windows::{largest_window, rows_per_window, widest_window};
use crate::kernels::{self, Processor, Product};

/// Which way a pass goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Forward alone.
    Forward,
    /// And backward, to the gradients of inputs.
    Inputs,
    /// And to those of weights.
    Weights,
}

/// Rows of the largest window of logits in a pass over a micro-batch in which so many tokens count.
pub fn logits_window(counted: usize, vocab: usize) -> usize {
    widest_window(counted, rows_per_window(vocab))
}

/// The same where only the most that counts in any micro-batch is known.
pub fn logits_window_up_to(counted: usize, vocab: usize) -> usize {
    largest_window(counted, rows_per_window(vocab))
}

/// Bytes that packing takes at once in a pass over micro-batches of this extent; `window` is the largest of logits.
pub fn packing(shape: &Shape, extent: Extent, window: usize, way: Way, threads: usize, processor: Processor) -> u64 {
    let mut products = Vec::new();
    let layers = Proj::ALL.iter().map(|proj| (proj.dims(shape), extent.tokens));
    for ((out, into), n) in layers.chain([((shape.vocab, shape.hidden), window)]) {
        products.push(Product { m: n, n: out, k: into, a_turned: false, b_turned: true, ragged: false });
        if way != Way::Forward {
            products.push(Product { m: n, n: into, k: out, a_turned: false, b_turned: false, ragged: false });
        }
        if way == Way::Weights {
            products.push(Product { m: out, n: into, k: n, a_turned: true, b_turned: false, ragged: true });
        }
    }
    kernels::packing(&products, threads, processor)
}
