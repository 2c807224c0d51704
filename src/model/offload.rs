//! Saved activations that wait in RAM while the card works on other blocks.
//!
//! The card has room for what two blocks keep, in turns: the one at work, and the one in flight. In the forward pass a
//! block's activations leave as soon as it is done, while the next block works; the last two stay. In the backward pass
//! they come back a block ahead, into the room of the block that was finished before. A block's output is the next one's
//! input, so inputs take turns in three rooms: one that is read, one that is written, one in flight.
//!
//! What is moved follows the policy: all that a block keeps, or with `recompute` its input alone. The arithmetic is the
//! same, on the same values; only where they wait differs.

use super::activations::{Activations, Block, Keep, Need, Pass, pair};
use super::parts::Make;
use super::shape::Shape;
use crate::kernels::{self, Buf, Spec};
use crate::text::{Fault, Result};

/// The holding of what waits; in RAM, whatever computes.
pub const OFFLOADED: &str = "offloaded activations";

/// Blocks whose activations are at hand.
const NEAR: usize = 2;

/// Rooms that the inputs of blocks take turns in.
pub(super) const ROUND: usize = 3;

/// Blocks, of so many that keep something, whose room is at hand.
pub(super) fn near(blocks: usize) -> usize {
    blocks.min(NEAR)
}

/// Blocks of a model whose activations wait in RAM: all but the last.
pub fn waiting(layers: usize) -> usize {
    layers.saturating_sub(NEAR)
}

/// What one block keeps, in RAM.
pub(crate) struct Away<T> {
    x: T,
    /// All but the input; not with `recompute`.
    rest: Option<(T, T, Block<T>)>,
}

impl<T> Away<T> {
    pub fn make(shape: &Shape, need: &Need<'_>, make: Make<'_, T>) -> Result<Self> {
        let n = need.extent.tokens;
        let x = make(OFFLOADED, Spec::f32(&[n, shape.hidden]))?;
        let rest = match need.keep {
            Keep::All => {
                let (k, v) = pair(OFFLOADED, n, shape.kv_width(), make)?;
                Some((k, v, Block::make(OFFLOADED, shape, need, make)?))
            }
            _ => None,
        };
        Ok(Away { x, rest })
    }
}

impl Pass {
    /// Copies the first n rows of what a block keeps to where it waits, if it is one that waits.
    pub fn put_away(&mut self, layer: usize, n: usize) -> Result<()> {
        let x = self.set.x_at(layer);
        let Activations { xs, kv, blocks, away, .. } = &mut self.set;
        let (caches, kept) = (kv.len(), blocks.len());
        let Some(Away { x: to, rest }) = away.get_mut(layer) else { return Ok(()) };
        carry(to, &xs[x], n)?;
        let Some((k, v, block)) = rest else { return Ok(()) };
        carry(k, &kv[layer % caches].0, n)?;
        carry(v, &kv[layer % caches].1, n)?;
        block.all_mut().zip(blocks[layer % kept].all()).try_for_each(|(to, from)| carry(to, from, n))
    }

    /// Copies it back into the room that the block has in its turn.
    pub fn bring_back(&mut self, layer: usize, n: usize) -> Result<()> {
        let x = self.set.x_at(layer);
        let Activations { xs, kv, blocks, away, .. } = &mut self.set;
        let (caches, kept) = (kv.len(), blocks.len());
        let Some(Away { x: from, rest }) = away.get(layer) else { return Ok(()) };
        if !self.filled {
            return Err(Fault::new("model.scratch", "a backward pass has nothing in RAM to go back to; this is a bug"));
        }
        carry(&mut xs[x], from, n)?;
        let Some((k, v, block)) = rest else { return Ok(()) };
        carry(&mut kv[layer % caches].0, k, n)?;
        carry(&mut kv[layer % caches].1, v, n)?;
        blocks[layer % kept].all_mut().zip(block.all()).try_for_each(|(to, from)| carry(to, from, n))
    }
}

/// The first n rows, from one place to the other.
fn carry(to: &mut Buf, from: &Buf, n: usize) -> Result<()> {
    kernels::copy(to.rows_mut(0..n), from.rows(0..n))
}
