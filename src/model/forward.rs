//! The decoder's forward pass, block by block. n tokens; every width is named in [`Block`].

use super::activations::{Activations, Block, Pass, Work, heads};
use super::batch::Laid;
use super::held::Model;
use super::layer::{Layer, Room};
use super::shape::Shape;
use super::tensors::Proj;
use crate::kernels::{self, Key};
use crate::text::Result;

/// From tokens to the residual stream after the last block, which is left in `xs`. What the backward pass reads is kept,
/// here or in RAM.
pub(crate) fn forward(model: &Model, pass: &mut Pass, batch: &Laid<'_>, dropout: Option<Key>) -> Result<()> {
    through(model, pass, batch, dropout, true)?;
    pass.filled = true;
    Ok(())
}

/// As [`forward`], where no backward pass follows: nothing is moved to RAM.
pub(crate) fn forward_only(model: &Model, pass: &mut Pass, batch: &Laid<'_>) -> Result<()> {
    through(model, pass, batch, None, false)
}

fn through(model: &Model, pass: &mut Pass, batch: &Laid<'_>, dropout: Option<Key>, learns: bool) -> Result<()> {
    pass.admit(batch)?;
    pass.filled = false;
    let width = model.shape.hidden;
    let first = pass.set.xs[0].view_mut().slice(0..batch.tokens() * width);
    kernels::embedding(first, model.table()?, batch.ids, width)?;
    for layer in 0..model.shape.layers {
        block(model, pass, batch, layer, dropout, true)?;
        if learns {
            pass.put_away(layer, batch.tokens())?;
        }
    }
    Ok(())
}

/// One block, from its input to the next block's; not `whole`: all but the output, for the backward pass to read.
pub(crate) fn block(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    layer: usize,
    dropout: Option<Key>,
    whole: bool,
) -> Result<()> {
    let Shape { hidden, ffn, heads: q_heads, kv_heads, head_dim, .. } = model.shape;
    let (q_width, kv_width) = (model.shape.q_width(), model.shape.kv_width());
    let (n, past) = (batch.tokens(), batch.past);
    let eps = model.shape.norm_eps as f32;
    let lin = Layer { model, layer, n, dropout };
    let (from, to) = (pass.set.x_at(layer), pass.set.x_at(layer + 1));
    let Pass { set: Activations { xs, kv, blocks, work, .. }, rope, .. } = pass;
    let Work { normed, wide, weight, dropped, attention } = work;
    let (caches, kept) = (kv.len(), blocks.len());
    let (k, v) = &mut kv[layer % caches];
    let Block { attention_rstd, q, o, lse, middle, mlp_rstd, gate, up, low } = &mut blocks[layer % kept];
    // Reborrows the room for one layer's use.
    macro_rules! room {
        () => {
            Room { weight: &mut *weight, dropped: &mut *dropped }
        };
    }

    // Attention: x + O(attention(rope(Q(norm x)), rope(K(norm x)), V(norm x))).
    let x = xs[from].view().slice(0..n * hidden);
    let scale = model.vector(model.shape.attention_norm_at(layer))?;
    let mut normed = normed.view_mut().slice(0..n * hidden);
    kernels::rms_norm(normed.reborrow(), attention_rstd.view_mut().slice(0..n), x, scale, eps)?;
    let rows = past * kv_width..(past + n) * kv_width;
    let mut q_rows = q.view_mut().slice(0..n * q_width);
    lin.forward(Proj::Q, q_rows.reborrow(), normed.as_view(), 0.0, &mut low[0], room!())?;
    lin.forward(Proj::K, k.view_mut().slice(rows.clone()), normed.as_view(), 0.0, &mut low[1], room!())?;
    lin.forward(Proj::V, v.view_mut().slice(rows.clone()), normed.as_view(), 0.0, &mut low[2], room!())?;
    kernels::rope(q_rows.reborrow(), rope, &batch.positions, q_heads, head_dim, false)?;
    kernels::rope(k.view_mut().slice(rows), rope, &batch.positions, kv_heads, head_dim, false)?;
    let seen = 0..(past + n) * kv_width;
    kernels::attention(
        o.view_mut().slice(0..n * q_width),
        lse.view_mut().slice(0..n * q_heads),
        q_rows.as_view(),
        k.view().slice(seen.clone()),
        v.view().slice(seen),
        &heads(&model.shape),
        &batch.segments,
        attention.view_mut(),
    )?;
    let mut middle = middle.view_mut().slice(0..n * hidden);
    kernels::copy(middle.reborrow(), x)?;
    lin.forward(Proj::O, middle.reborrow(), o.view().slice(0..n * q_width), 1.0, &mut low[3], room!())?;

    // Feed-forward: x + Down(silu(Gate(norm x)) · Up(norm x)).
    let scale = model.vector(model.shape.mlp_norm_at(layer))?;
    kernels::rms_norm(normed.reborrow(), mlp_rstd.view_mut().slice(0..n), middle.as_view(), scale, eps)?;
    let mut gate = gate.view_mut().slice(0..n * ffn);
    let mut up = up.view_mut().slice(0..n * ffn);
    lin.forward(Proj::Gate, gate.reborrow(), normed.as_view(), 0.0, &mut low[4], room!())?;
    lin.forward(Proj::Up, up.reborrow(), normed.as_view(), 0.0, &mut low[5], room!())?;
    let mut act = wide.view_mut().slice(0..n * ffn);
    kernels::swiglu(act.reborrow(), gate.as_view(), up.as_view())?;
    if !whole {
        return lin.lower(Proj::Down, act.as_view(), &mut low[6], dropped);
    }
    let mut next = xs[to].view_mut().slice(0..n * hidden);
    kernels::copy(next.reborrow(), middle.as_view())?;
    lin.forward(Proj::Down, next, act.as_view(), 1.0, &mut low[6], room!())
}
