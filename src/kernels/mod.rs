//! Each numeric operation once, writing into buffers it is given.
//!
//! Matrices are row-major f32 unless a signature says otherwise; `n` counts tokens laid end to end, without padding.
//! Every kernel checks shapes before it touches memory and answers a wrong one with a `kernel.shape` fault.
//!
//! The same inputs give the same bits on any number of threads: work is split over outputs that do not depend on each
//! other, or reduced in chunks that follow from shapes alone. Loops are compiled once for each vector width and never
//! fuse a multiplication with an addition, so the width does not show in the results either. Products of matrices do depend
//! on the machine: `gemm`'s, the thin ones and those of attention.

mod adamw8;
mod attention;
mod buffer;
mod cast;
mod clock;
pub mod cuda;
mod cut;
mod dropout;
mod dynamic;
mod embedding;
mod lent;
mod loss;
mod matmul;
mod nf4;
mod norm;
mod optimizer;
mod packing;
mod pointwise;
mod random;
mod rope;
mod rows;
mod shape;
mod small;
mod spread;
mod thin;
mod vector;

#[cfg(test)]
mod tests;

pub use adamw8::{FEWEST_IN_8_BITS, MOMENT_BLOCK, Moment8, adamw8};
pub use attention::{Heads, Segment, attention, attention_backward, attention_scratch};
pub use buffer::{Buf, Element, Heap, Pool, Spec, View, ViewMut};
pub use cast::{narrow, widen};
pub use clock::{Work, clock_start, clock_stop};
pub use dropout::{dropout, dropout_add};
pub use embedding::{embedding, embedding_backward};
pub use lent::Lent;
pub use loss::{UNCOUNTED, cross_entropy, cross_entropy_gradient};
pub use matmul::{Mat, MatMut, Term, matmul, matmul_sum};
pub use nf4::{Nf4, Nf4Layout, Nf4Writer, Scales, dynamic_map};
pub use norm::{rms_norm, rms_norm_apply, rms_norm_backward};
pub use optimizer::{AdamW, adamw, sum_squares};
pub use packing::{Processor, Product, packing, slabs, warm};
pub use pointwise::{add, add_bias, bias_backward, copy, fill, scale, swiglu, swiglu_backward};
pub use random::{Key, fill_normal, fill_uniform, normal, normal4, uniform};
pub use rope::{RopeTable, rope, rope_tables};
pub use rows::{gather_rows, scatter_rows};
pub use thin::{THIN, thin_product, thin_sum, thin_sum_turned, turn};
