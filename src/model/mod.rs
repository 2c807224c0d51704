//! The decoder: config to shape, one tensor list that sizes, loads and saves, and the forward and backward passes
//! written out by hand.
//!
//! A [`Shape`] gives the list of tensors and, with a [`Form`], what they take; [`Model::read`] fills them. A pass
//! runs in one set of buffers (`activations`), described once for the plan and for the run, and taken once.

mod activations;
mod adapter;
mod backward;
mod batch;
mod config;
mod describe;
mod family;
mod forward;
mod gradients;
mod held;
mod infer;
mod layer;
mod mapping;
mod merge;
mod offload;
mod parts;
mod products;
mod shape;
mod source;
mod tensors;
mod top;
mod weight;
mod windows;

#[cfg(test)]
pub(crate) mod tests;

pub use activations::Keep;
pub use adapter::{Adapter, LoraSettings, Pair, PairValues};
pub use batch::{Extent, NOT_COUNTED, TokenBatch};
pub use family::Family;
pub use held::{Model, Progress, growth, holdings, quantising, reading};
pub use infer::{Sampling, generate, generation, logits};
pub use mapping::{MAPPED, Mapping, Parts};
pub use merge::{Base, merge_window, merge_windows, merged, unmerged};
pub use offload::{OFFLOADED, waiting};
pub use parts::Planned;
pub use products::{Way, logits_window, logits_window_up_to, packing};
pub use shape::{Rope, Scaling, Shape};
pub use source::{Random, WeightSource};
pub use tensors::{Proj, Role, Tensor};
pub use weight::{Float, Form, Held};

pub(crate) use activations::{Need, Pass, specs};
pub(crate) use backward::{backward, backward_fused};
pub(crate) use batch::Laid;
pub(crate) use forward::{forward, forward_only};
pub(crate) use gradients::{FullGradients, Gradients};
pub(crate) use parts::{Make, plan, take};
pub(crate) use top::{score, score_backward};
pub(crate) use weight::Weight;
