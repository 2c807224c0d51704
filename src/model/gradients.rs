//! Where gradients are added up.

use super::adapter::Pair;
use super::parts::Make;
use super::shape::Shape;
use crate::kernels::{self, Buf, Spec};
use crate::text::Result;

/// Buffers like the parameters they belong to.
pub(crate) enum Gradients {
    /// By layer, then by [`Proj::ALL`](super::Proj::ALL).
    Lora(Vec<Option<Pair>>),
    Full(FullGradients),
}

/// Gradients of every tensor; or, where the update is part of the backward pass, of what lies outside the blocks and of
/// one block, whose buffers every block uses in its turn.
pub(crate) struct FullGradients<T = Buf> {
    list: Vec<T>,
    /// Tensors of a block, and blocks.
    per_layer: usize,
    layers: usize,
    fused: bool,
}

impl<T> FullGradients<T> {
    pub fn make(shape: &Shape, fused: bool, make: Make<'_, T>) -> Result<Self> {
        let (per_layer, layers) = (shape.per_layer(), shape.layers);
        let mut list = Vec::new();
        for (at, tensor) in shape.tensors().iter().enumerate() {
            // Blocks are alike, so the first one's buffers serve all.
            let later = at > per_layer && at < shape.final_norm_at();
            if !(fused && later) {
                list.push(make("gradients", Spec::f32(&tensor.shape))?);
            }
        }
        Ok(FullGradients { list, per_layer, layers, fused })
    }

    /// Where the gradient of the tensor `at` lies.
    fn slot(&self, at: usize) -> usize {
        let outside = 1 + self.per_layer * self.layers;
        match at {
            _ if !self.fused || at == 0 => at,
            _ if at < outside => 1 + (at - 1) % self.per_layer,
            _ => at - outside + 1 + self.per_layer,
        }
    }
}

impl FullGradients {
    /// The gradient of a tensor, by its place in the model's list.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut Buf> {
        let slot = self.slot(at);
        self.list.get_mut(slot)
    }

    /// One block at a time.
    pub fn is_fused(&self) -> bool {
        self.fused
    }
}

impl Gradients {
    /// Every buffer; in the order of the parameters, unless they are one block's at a time.
    pub fn buffers(&self) -> Vec<&Buf> {
        match self {
            Gradients::Lora(pairs) => pairs.iter().flatten().flat_map(|pair| [&pair.a, &pair.b]).collect(),
            Gradients::Full(full) => full.list.iter().collect(),
        }
    }

    pub fn clear(&mut self) -> Result<()> {
        let clear = |buf: &mut Buf| kernels::fill(buf.view_mut(), 0.0);
        match self {
            Gradients::Lora(pairs) => pairs.iter_mut().flatten().try_for_each(|pair| {
                clear(&mut pair.a)?;
                clear(&mut pair.b)
            }),
            Gradients::Full(full) => full.list.iter_mut().try_for_each(clear),
        }
    }
}
