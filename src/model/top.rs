//! From the residual stream to the loss and back, over the counted tokens alone and in windows of rows.
//!
//! Keeping the logits or not, the same kernels run on the same windows in the same order; only how long a window's
//! logits live differs. So losses and gradients are equal to the last bit.

use std::ops::Range;

use super::activations::{Activations, Pass, Top, Work};
use super::backward::{no_flow, vector_grad};
use super::batch::Laid;
use super::gradients::Gradients;
use super::held::Model;
use super::windows::{rows_per_window, windows};
use crate::kernels::{self, Mat, MatMut, View, ViewMut};
use crate::text::Result;

/// Gathers the wanted rows of the stream and norms them: `top.normed`.
fn rise(model: &Model, pass: &mut Pass, batch: &Laid<'_>) -> Result<()> {
    let (n, c, width) = (batch.tokens(), batch.counted(), model.shape.hidden);
    let last = pass.set.x_at(model.shape.layers);
    let Activations { xs, top, .. } = &mut pass.set;
    let last = xs[last].view().slice(0..n * width);
    let mut rows = top.rows.view_mut().slice(0..c * width);
    kernels::gather_rows(rows.reborrow(), last, &batch.rows, width)?;
    let scale = model.vector(model.shape.final_norm_at())?;
    kernels::rms_norm(
        top.normed.view_mut().slice(0..c * width),
        top.rstd.view_mut().slice(0..c),
        rows.as_view(),
        scale,
        model.shape.norm_eps as f32,
    )
}

/// Sum of the counted tokens' losses, added in their order. With `learn`, and where logits are not kept, their
/// gradient is made at once: scaled by its number, so that a window's means come out.
pub(crate) fn score(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    mut learn: Option<(&mut Gradients, f32)>,
) -> Result<f64> {
    let (c, width, vocab) = (batch.counted(), model.shape.hidden, model.shape.vocab);
    if c == 0 {
        return Ok(0.0);
    }
    rise(model, pass, batch)?;
    for window in windows(c, rows_per_window(vocab)) {
        let Activations { top, work: Work { weight, .. }, .. } = &mut pass.set;
        let normed = top.normed.view().slice(window.start * width..window.end * width);
        let mut logits = top.logits.view_mut().slice(logits_at(&window, top.kept, vocab));
        model.head().project(logits.reborrow(), normed, (window.len(), vocab, width), 0.0, None, weight)?;
        kernels::cross_entropy(
            top.loss.view_mut().slice(window.clone()),
            top.lse.view_mut().slice(window.clone()),
            logits.as_view(),
            &batch.labels[window.clone()],
            vocab,
        )?;
        if let Some((grads, scale)) = &mut learn
            && !top.kept
        {
            window_backward(model, pass, batch, window, grads, *scale)?;
        }
    }
    Ok(pass.set.top.loss.view().slice(0..c).cpu::<f32>()?.iter().map(|loss| f64::from(*loss)).sum())
}

/// From the loss to `flow.d`, the gradient of the last block's output.
pub(crate) fn score_backward(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    grads: &mut Gradients,
    scale: f32,
) -> Result<()> {
    let (n, c, width) = (batch.tokens(), batch.counted(), model.shape.hidden);
    if pass.set.top.kept {
        for window in windows(c, rows_per_window(model.shape.vocab)) {
            window_backward(model, pass, batch, window, grads, scale)?;
        }
    }
    let Activations { top, flow, .. } = &mut pass.set;
    let d = &mut flow.as_mut().ok_or_else(no_flow)?.d;
    let Top { rows, rstd, normed, d_normed, .. } = top;
    let d_normed = d_normed.as_ref().ok_or_else(no_flow)?.view().slice(0..c * width);
    // The norm's output was last read by the windows; its room takes the gradient of the gathered rows.
    let mut d_rows = normed.view_mut().slice(0..c * width);
    kernels::fill(d_rows.reborrow(), 0.0)?;
    let at = model.shape.final_norm_at();
    kernels::rms_norm_backward(
        d_rows.reborrow(),
        vector_grad(grads, at),
        d_normed,
        rows.view().slice(0..c * width),
        rstd.view().slice(0..c),
        model.vector(at)?,
    )?;
    let mut d = d.view_mut().slice(0..n * width);
    kernels::fill(d.reborrow(), 0.0)?;
    kernels::scatter_rows(d, d_rows.as_view(), &batch.rows, width)
}

/// One window's logits become their gradient, which passes to `top.d_normed` and, in full training, to the head.
fn window_backward(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    window: Range<usize>,
    grads: &mut Gradients,
    scale: f32,
) -> Result<()> {
    let (m, width, vocab) = (window.len(), model.shape.hidden, model.shape.vocab);
    let Activations { top, work: Work { weight, .. }, .. } = &mut pass.set;
    let mut logits = top.logits.view_mut().slice(logits_at(&window, top.kept, vocab));
    let lse = top.lse.view().slice(window.clone());
    kernels::cross_entropy_gradient(logits.reborrow(), lse, &batch.labels[window.clone()], scale, vocab)?;
    let rows = window.start * width..window.end * width;
    let d_normed = top.d_normed.as_mut().ok_or_else(no_flow)?.view_mut().slice(rows.clone());
    model.head().project_back(d_normed, logits.as_view(), (m, vocab, width), 0.0, None, weight)?;
    if let Gradients::Full(list) = grads {
        let head = list.get_mut(model.shape.head_at()).ok_or_else(no_flow)?;
        let normed = Mat::new(top.normed.view().slice(rows), m, width);
        kernels::matmul(
            MatMut::new(head.view_mut(), vocab, width),
            Mat::new(logits.as_view(), m, vocab).t(),
            normed,
            1.0,
            1.0,
        )?;
    }
    Ok(())
}

/// Logits of the wanted rows, a window at a time: `each` gets the rows' range and their logits.
pub(crate) fn logits_of(
    model: &Model,
    pass: &mut Pass,
    batch: &Laid<'_>,
    each: &mut dyn FnMut(Range<usize>, View<'_>) -> Result<()>,
) -> Result<()> {
    let (c, width, vocab) = (batch.counted(), model.shape.hidden, model.shape.vocab);
    rise(model, pass, batch)?;
    let Activations { top, work: Work { weight, .. }, .. } = &mut pass.set;
    for window in windows(c, rows_per_window(vocab)) {
        let normed = top.normed.view().slice(window.start * width..window.end * width);
        let mut logits: ViewMut<'_> = top.logits.view_mut().slice(logits_at(&window, top.kept, vocab));
        model.head().project(logits.reborrow(), normed, (window.len(), vocab, width), 0.0, None, weight)?;
        each(window, logits.as_view())?;
    }
    Ok(())
}

/// Where a window's logits lie: at their own place, or all at the front.
fn logits_at(window: &Range<usize>, kept: bool, vocab: usize) -> Range<usize> {
    if kept { window.start * vocab..window.end * vocab } else { 0..window.len() * vocab }
}
