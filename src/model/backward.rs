//! The decoder's backward pass, block by block, by hand. Each tensor's last reader is visible here, and the rooms of
//! the dead are used again:
//!
//! | room                | lives there, one after the other                        |
//! |---------------------|---------------------------------------------------------|
//! | `work.wide`         | act = silu(gate)·up; then d gate; then d q              |
//! | `flow.wide[0]`      | d act; then d o                                         |
//! | `flow.wide[1]`      | d up                                                    |
//! | `work.normed`       | the mlp norm's output; then the attention norm's        |
//! | `flow.d`            | d of the block's output, of its middle, of its input    |

use super::activations::{Activations, Block, Flow, Keep, Pass, Work, heads};
use super::batch::Laid;
use super::forward::block;
use super::gradients::Gradients;
use super::held::Model;
use super::layer::{Layer, Room};
use super::shape::Shape;
use super::tensors::Proj;
use crate::kernels::{self, Buf, Key, ViewMut};
use crate::text::{Fault, Result};

/// From the gradient of the last block's output, in `flow.d`, to every parameter's gradient.
pub(crate) fn backward(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    dropout: Option<Key>,
    grads: &mut Gradients,
) -> Result<()> {
    for layer in (0..model.shape.layers).rev() {
        block_backward(model, pass, batch, layer, dropout, grads)?;
    }
    embedding_backward(model, pass, batch, grads)
}

/// [`backward`] that calls `after` with each block's gradients as soon as they are whole: no block before it reads that
/// block's weights any more, so they may change.
pub(crate) fn backward_fused(
    model: &mut Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    dropout: Option<Key>,
    grads: &mut Gradients,
    after: &mut dyn FnMut(&mut Model, &mut Gradients, usize) -> Result<()>,
) -> Result<()> {
    for layer in (0..model.shape.layers).rev() {
        block_backward(model, pass, batch, layer, dropout, grads)?;
        after(model, grads, layer)?;
    }
    embedding_backward(model, pass, batch, grads)
}

fn embedding_backward(model: &Model, pass: &Pass, batch: &Laid<'_>, grads: &mut Gradients) -> Result<()> {
    let Gradients::Full(list) = grads else { return Ok(()) };
    let (n, width) = (batch.tokens(), model.shape.hidden);
    let flow = pass.set.flow.as_ref().ok_or_else(no_flow)?;
    let table = list.get_mut(Shape::EMBEDDING).ok_or_else(no_flow)?;
    kernels::embedding_backward(table.view_mut(), flow.d.view().slice(0..n * width), batch.ids, width)
}

fn block_backward(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    layer: usize,
    dropout: Option<Key>,
    grads: &mut Gradients,
) -> Result<()> {
    // What the next block in turn needs comes back while this one works.
    if let Some(next) = layer.checked_sub(1) {
        pass.bring_back(next, batch.tokens())?;
    }
    // With `recompute` its activations are made again, but for the last block's, which are still there.
    if pass.keep == Keep::Inputs && layer + 1 < model.shape.layers {
        block(model, pass, batch, layer, dropout, false)?;
    }
    let shape = &model.shape;
    let Shape { hidden, ffn, heads: q_heads, kv_heads, head_dim, .. } = *shape;
    let (q_width, kv_width, n) = (shape.q_width(), shape.kv_width(), batch.tokens());
    let lin = Layer { model, layer, n, dropout };
    let from = pass.set.x_at(layer);
    let Pass { set: Activations { xs, kv, blocks, work, flow, .. }, rope, .. } = pass;
    let Work { normed, wide, weight, dropped, attention } = work;
    let Flow { d, d_normed, wide: [wide0, wide1], dk, dv, low: low_flow } = flow.as_mut().ok_or_else(no_flow)?;
    let (k, v) = &kv[layer % kv.len()];
    let Block { attention_rstd, q, o, lse, middle, mlp_rstd, gate, up, low } = &blocks[layer % blocks.len()];
    let x = xs[from].view().slice(0..n * hidden);
    let (k, v) = (k.view().slice(0..n * kv_width), v.view().slice(0..n * kv_width));
    let middle = middle.view().slice(0..n * hidden);
    let (gate, up) = (gate.view().slice(0..n * ffn), up.view().slice(0..n * ffn));
    let o = o.view().slice(0..n * q_width);
    let mut d = d.view_mut().slice(0..n * hidden);
    let mut d_normed = d_normed.view_mut().slice(0..n * hidden);
    let mut normed = normed.view_mut().slice(0..n * hidden);
    macro_rules! room {
        () => {
            Room { weight: &mut *weight, dropped: &mut *dropped }
        };
    }

    // Feed-forward. d is the gradient of the block's output; the residual path passes it on as it is.
    let mut act = part(wide, n * ffn);
    let mut d_act = part(wide0, n * ffn);
    kernels::swiglu(act.reborrow(), gate, up)?;
    let into = Some((d_act.reborrow(), 0.0));
    lin.backward(Proj::Down, into, (d.as_view(), act.as_view()), (&low[6], &mut *low_flow), grads, room!())?;
    let (mut d_gate, mut d_up) = (act, part(wide1, n * ffn));
    kernels::swiglu_backward(d_gate.reborrow(), d_up.reborrow(), d_act.as_view(), gate, up)?;
    let at = shape.mlp_norm_at(layer);
    let (scale, rstd) = (model.vector(at)?, mlp_rstd.view().slice(0..n));
    kernels::rms_norm_apply(normed.reborrow(), middle, rstd, scale)?;
    let into = Some((d_normed.reborrow(), 0.0));
    lin.backward(Proj::Gate, into, (d_gate.as_view(), normed.as_view()), (&low[4], &mut *low_flow), grads, room!())?;
    let into = Some((d_normed.reborrow(), 1.0));
    lin.backward(Proj::Up, into, (d_up.as_view(), normed.as_view()), (&low[5], &mut *low_flow), grads, room!())?;
    kernels::rms_norm_backward(d.reborrow(), vector_grad(grads, at), d_normed.as_view(), middle, rstd, scale)?;

    // Attention. d is now the gradient of the stream between the halves.
    let mut d_o = part(wide0, n * q_width);
    let into = Some((d_o.reborrow(), 0.0));
    lin.backward(Proj::O, into, (d.as_view(), o), (&low[3], &mut *low_flow), grads, room!())?;
    let (mut dq, mut dk, mut dv) = (part(wide, n * q_width), part(dk, n * kv_width), part(dv, n * kv_width));
    kernels::attention_backward(
        dq.reborrow(),
        dk.reborrow(),
        dv.reborrow(),
        d_o.as_view(),
        o,
        lse.view().slice(0..n * q_heads),
        q.view().slice(0..n * q_width),
        k,
        v,
        &heads(shape),
        &batch.segments,
        attention.view_mut(),
    )?;
    kernels::rope(dq.reborrow(), rope, &batch.positions, q_heads, head_dim, true)?;
    kernels::rope(dk.reborrow(), rope, &batch.positions, kv_heads, head_dim, true)?;
    let at = shape.attention_norm_at(layer);
    let (scale, rstd) = (model.vector(at)?, attention_rstd.view().slice(0..n));
    kernels::rms_norm_apply(normed.reborrow(), x, rstd, scale)?;
    // Nothing below the first block is trained beside adapters, so its input needs no gradient.
    let wanted = layer > 0 || matches!(grads, Gradients::Full(_));
    let parts = [(Proj::Q, dq.as_view(), 0.0), (Proj::K, dk.as_view(), 1.0), (Proj::V, dv.as_view(), 1.0)];
    for (proj, dy, keep) in parts {
        let into = wanted.then_some(()).map(|()| (d_normed.reborrow(), keep));
        lin.backward(proj, into, (dy, normed.as_view()), (&low[proj.index()], &mut *low_flow), grads, room!())?;
    }
    if wanted {
        kernels::rms_norm_backward(d.reborrow(), vector_grad(grads, at), d_normed.as_view(), x, rstd, scale)?;
    }
    Ok(())
}

/// The head of a flat room.
fn part(room: &mut Buf, len: usize) -> ViewMut<'_> {
    room.view_mut().slice(0..len)
}

/// Where the gradient of a norm is added up; none where norms are frozen.
pub(crate) fn vector_grad(grads: &mut Gradients, at: usize) -> Option<ViewMut<'_>> {
    match grads {
        Gradients::Lora(_) => None,
        Gradients::Full(list) => list.get_mut(at).map(Buf::view_mut),
    }
}

pub(crate) fn no_flow() -> Fault {
    Fault::new("model.scratch", "a backward pass was asked of buffers that were not taken for one; this is a bug")
}
