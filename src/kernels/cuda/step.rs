//! The words of a step, which `begin_step` works out on the card and the updates read: the places of optimizer.cu.

/// How many f32 there are; the first eight are AdamW's scalars.
pub const WORDS: usize = 11;
/// By which gradients are multiplied: clipping, and the way back from the loss scale.
pub const FACTOR: usize = 8;
/// Norm of the gradient before clipping.
pub const NORM: usize = 9;
/// 1 where the step is taken, 0 where the norm is not finite and nothing changes.
pub const FINITE: usize = 10;
