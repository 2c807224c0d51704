//! The linear layers of one block with their adapters: forward, and the gradients of input and parameters.

use super::adapter::Pair;
use super::held::Model;
use super::tensors::Proj;
use super::weight::Scratch;
use crate::kernels::{self, Buf, Key, Mat, MatMut, View, ViewMut};
use crate::text::{Fault, Result};

/// Where gradients are added up: buffers like the parameters they belong to.
pub(crate) enum Gradients {
    /// By layer, then by [`Proj::ALL`].
    Lora(Vec<Option<Pair>>),
    /// In the order of the model's tensors.
    Full(Vec<Buf>),
}

impl Gradients {
    /// Every buffer, in the order of the parameters.
    pub fn buffers(&self) -> Vec<&Buf> {
        match self {
            Gradients::Lora(pairs) => pairs.iter().flatten().flat_map(|pair| [&pair.a, &pair.b]).collect(),
            Gradients::Full(list) => list.iter().collect(),
        }
    }

    pub fn clear(&mut self) -> Result<()> {
        let clear = |buf: &mut Buf| kernels::fill(buf.view_mut(), 0.0);
        match self {
            Gradients::Lora(pairs) => pairs.iter_mut().flatten().try_for_each(|pair| {
                clear(&mut pair.a)?;
                clear(&mut pair.b)
            }),
            Gradients::Full(list) => list.iter_mut().try_for_each(clear),
        }
    }
}

/// Buffers that a linear layer borrows while it works.
pub(crate) struct Room<'a> {
    /// To widen a narrow weight into.
    pub weight: &'a mut Scratch,
    /// For an adapter's input after dropout, and for its gradient.
    pub dropped: &'a mut Option<Buf>,
}

/// One block's linear layers over n tokens.
pub(crate) struct Layer<'a> {
    pub model: &'a Model,
    pub layer: usize,
    pub n: usize,
    /// Of this micro-batch; none: nothing is dropped.
    pub dropout: Option<Key>,
}

impl Layer<'_> {
    /// `y = W x + b + s · B (A x) + keep · y`; `low` keeps `A x` for the backward pass.
    pub fn forward(
        &self,
        proj: Proj,
        mut y: ViewMut<'_>,
        x: View<'_>,
        keep: f32,
        low: &mut Option<Buf>,
        room: Room<'_>,
    ) -> Result<()> {
        let shape = &self.model.shape;
        let (out, into) = proj.dims(shape);
        self.model.linear(self.layer, proj).project(y.reborrow(), x, (self.n, out, into), keep, room.weight)?;
        if let Some(bias) = shape.bias_at(self.layer, proj) {
            kernels::add_bias(y.reborrow(), self.model.vector(bias)?)?;
        }
        self.lower(proj, x, low, room.dropped)?;
        if let (Some((pair, rank, scale)), Some(low)) = (self.pair(proj), low) {
            let low = Mat::new(low.view().slice(0..self.n * rank), self.n, rank);
            kernels::matmul(MatMut::new(y, self.n, out), low, Mat::new(pair.b.view(), out, rank).t(), scale, 1.0)?;
        }
        Ok(())
    }

    /// `low = A x` with dropout on x, where the layer has an adapter.
    pub fn lower(&self, proj: Proj, x: View<'_>, low: &mut Option<Buf>, dropped: &mut Option<Buf>) -> Result<()> {
        let Some((pair, rank, _)) = self.pair(proj) else { return Ok(()) };
        let low = low.as_mut().ok_or_else(no_room)?;
        let (n, into) = (self.n, proj.dims(&self.model.shape).1);
        let x = self.drop(proj, x, dropped)?;
        let low = MatMut::new(low.view_mut().slice(0..n * rank), n, rank);
        kernels::matmul(low, Mat::new(x, n, into), Mat::new(pair.a.view(), rank, into).t(), 1.0, 0.0)
    }

    /// Adds the parameters' gradients to `grads`, and makes `dx = dy · W + s · (dy B) A + keep · dx` where `dx` is
    /// wanted. `low` is what the forward pass kept, `d_low` room for its gradient.
    pub fn backward(
        &self,
        proj: Proj,
        mut dx: Option<(ViewMut<'_>, f32)>,
        (dy, x): (View<'_>, View<'_>),
        (low, d_low): (&Option<Buf>, &mut Option<Buf>),
        grads: &mut Gradients,
        room: Room<'_>,
    ) -> Result<()> {
        let (n, shape) = (self.n, &self.model.shape);
        let (out, into) = proj.dims(shape);
        if let Some((dx, keep)) = &mut dx {
            self.model.linear(self.layer, proj).project_back(dx.reborrow(), dy, (n, out, into), *keep, room.weight)?;
        }
        match grads {
            Gradients::Full(list) => {
                let dw = list.get_mut(shape.linear_at(self.layer, proj)).ok_or_else(no_room)?;
                let dw = MatMut::new(dw.view_mut(), out, into);
                kernels::matmul(dw, Mat::new(dy, n, out).t(), Mat::new(x, n, into), 1.0, 1.0)?;
                if let Some(db) = shape.bias_at(self.layer, proj).and_then(|at| list.get_mut(at)) {
                    kernels::bias_backward(db.view_mut(), dy)?;
                }
                Ok(())
            }
            Gradients::Lora(pairs) => {
                let grad = pairs.get_mut(self.layer * Proj::ALL.len() + proj.index()).and_then(Option::as_mut);
                let (Some((pair, rank, scale)), Some(grad)) = (self.pair(proj), grad) else { return Ok(()) };
                let low = low.as_ref().ok_or_else(no_room)?.view().slice(0..n * rank);
                let mut d_low = d_low.as_mut().ok_or_else(no_room)?.view_mut().slice(0..n * rank);
                let (a, b) = (Mat::new(pair.a.view(), rank, into), Mat::new(pair.b.view(), out, rank));
                let dy = Mat::new(dy, n, out);
                kernels::matmul(MatMut::new(d_low.reborrow(), n, rank), dy, b, scale, 0.0)?;
                let db = MatMut::new(grad.b.view_mut(), out, rank);
                kernels::matmul(db, dy.t(), Mat::new(low, n, rank), scale, 1.0)?;
                let d_low = Mat::new(d_low.as_view(), n, rank);
                let x = self.drop(proj, x, room.dropped)?;
                let da = MatMut::new(grad.a.view_mut(), rank, into);
                kernels::matmul(da, d_low.t(), Mat::new(x, n, into), 1.0, 1.0)?;
                let Some((dx, _)) = dx else { return Ok(()) };
                match (self.key(proj), room.dropped) {
                    (Some((p, key)), Some(dropped)) => {
                        // The dropped input is not needed any more; its room takes the gradient before dropout.
                        let mut behind = dropped.view_mut().slice(0..n * into);
                        kernels::matmul(MatMut::new(behind.reborrow(), n, into), d_low, a, 1.0, 0.0)?;
                        kernels::dropout_add(dx, behind.as_view(), p, key)
                    }
                    _ => kernels::matmul(MatMut::new(dx, n, into), d_low, a, 1.0, 1.0),
                }
            }
        }
    }

    /// The layer's adapter with its rank and scale.
    fn pair(&self, proj: Proj) -> Option<(&Pair, usize, f32)> {
        let adapter = self.model.adapter.as_ref()?;
        Some((adapter.pair(self.layer, proj)?, adapter.settings.rank, adapter.scale))
    }

    /// Probability and key of this layer's dropout, where there is any.
    fn key(&self, proj: Proj) -> Option<(f32, Key)> {
        let p = self.model.adapter.as_ref()?.settings.dropout;
        let stream = (self.layer * Proj::ALL.len() + proj.index()) as u64;
        self.dropout.filter(|_| p > 0.0).map(|key| (p, key.with(stream)))
    }

    /// The adapter's input: x, or `dropped` filled with what dropout leaves of it.
    fn drop<'a>(&self, proj: Proj, x: View<'a>, dropped: &'a mut Option<Buf>) -> Result<View<'a>> {
        let Some((p, key)) = self.key(proj) else { return Ok(x) };
        let dropped = dropped.as_mut().ok_or_else(no_room)?;
        kernels::dropout(dropped.view_mut().slice(0..x.len()), x, p, key)?;
        let dropped: &'a Buf = dropped;
        Ok(dropped.view().slice(0..x.len()))
    }
}

fn no_room() -> Fault {
    Fault::new("model.scratch", "a layer's adapter has no room to work in; this is a bug")
}
