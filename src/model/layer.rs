//! The linear layers of one block with their adapters: forward, and the gradients of input and parameters.

use super::activations::LowFlow;
use super::adapter::Pair;
use super::gradients::Gradients;
use super::held::Model;
use super::tensors::Proj;
use super::weight::{Low, Scratch};
use crate::kernels::{self, Buf, Key, Mat, MatMut, THIN, View, ViewMut};
use crate::text::{Fault, Result};

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
        let dims = (self.n, proj.dims(shape).0, proj.dims(shape).1);
        self.lower(proj, x, low, room.dropped)?;
        let low = match (self.pair(proj), low) {
            (Some((pair, rank, scale)), Some(low)) => {
                Some(Low { columns: low.view().slice(0..self.n * rank), matrix: pair.b.view(), rank, scale })
            }
            _ => None,
        };
        self.model.linear(self.layer, proj).project(y.reborrow(), x, dims, keep, low, room.weight)?;
        match shape.bias_at(self.layer, proj) {
            Some(bias) => kernels::add_bias(y, self.model.vector(bias)?),
            None => Ok(()),
        }
    }

    /// `low = A x` with dropout on x, where the layer has an adapter.
    pub fn lower(&self, proj: Proj, x: View<'_>, low: &mut Option<Buf>, dropped: &mut Option<Buf>) -> Result<()> {
        let Some((pair, rank, _)) = self.pair(proj) else { return Ok(()) };
        let low = low.as_mut().ok_or_else(no_room)?;
        let (n, into) = (self.n, proj.dims(&self.model.shape).1);
        let x = self.drop(proj, x, dropped)?;
        let low = low.view_mut().slice(0..n * rank);
        if rank <= THIN {
            return kernels::thin_product(low, x, pair.a.view(), rank, 1.0);
        }
        let a = Mat::new(pair.a.view(), rank, into).t();
        kernels::matmul(MatMut::new(low, n, rank), Mat::new(x, n, into), a, 1.0, 0.0)
    }

    /// Adds the parameters' gradients to `grads`, and makes `dx = dy · W + s · (dy B) A + keep · dx` where `dx` is
    /// wanted. `low` is what the forward pass kept, `flow` room for its gradient.
    pub fn backward(
        &self,
        proj: Proj,
        dx: Option<(ViewMut<'_>, f32)>,
        (dy, x): (View<'_>, View<'_>),
        (low, flow): (&Option<Buf>, &mut Option<LowFlow<Buf>>),
        grads: &mut Gradients,
        room: Room<'_>,
    ) -> Result<()> {
        let (n, shape) = (self.n, &self.model.shape);
        let (out, into) = proj.dims(shape);
        let weight = self.model.linear(self.layer, proj);
        let pairs = match grads {
            Gradients::Full(list) => {
                if let Some((dx, keep)) = dx {
                    weight.project_back(dx, dy, (n, out, into), keep, None, room.weight)?;
                }
                let dw = list.get_mut(shape.linear_at(self.layer, proj)).ok_or_else(no_room)?;
                let dw = MatMut::new(dw.view_mut(), out, into);
                kernels::matmul(dw, Mat::new(dy, n, out).t(), Mat::new(x, n, into), 1.0, 1.0)?;
                return match shape.bias_at(self.layer, proj).and_then(|at| list.get_mut(at)) {
                    Some(db) => kernels::bias_backward(db.view_mut(), dy),
                    None => Ok(()),
                };
            }
            Gradients::Lora(pairs) => pairs,
        };
        let grad = pairs.get_mut(self.layer * Proj::ALL.len() + proj.index()).and_then(Option::as_mut);
        let (Some((pair, rank, scale)), Some(grad)) = (self.pair(proj), grad) else {
            return match dx {
                Some((dx, keep)) => weight.project_back(dx, dy, (n, out, into), keep, None, room.weight),
                None => Ok(()),
            };
        };
        let low = low.as_ref().ok_or_else(no_room)?.view().slice(0..n * rank);
        let LowFlow { d, turned } = flow.as_mut().ok_or_else(no_room)?;
        low_backward(pair, grad, (dy, low), d.view_mut().slice(0..n * rank), turned, (n, out, rank), scale)?;
        let d_low = d.view().slice(0..n * rank);
        let kept = self.drop(proj, x, room.dropped)?;
        if rank <= THIN {
            kernels::thin_sum(grad.a.view_mut(), d_low, kept, rank, 1.0)?;
        } else {
            let da = MatMut::new(grad.a.view_mut(), rank, into);
            kernels::matmul(da, Mat::new(d_low, n, rank).t(), Mat::new(kept, n, into), 1.0, 1.0)?;
        }
        let Some((mut dx, keep)) = dx else { return Ok(()) };
        let Some((p, key)) = self.key(proj) else {
            let low = Low { columns: d_low, matrix: pair.a.view(), rank, scale: 1.0 };
            return weight.project_back(dx, dy, (n, out, into), keep, Some(low), room.weight);
        };
        weight.project_back(dx.reborrow(), dy, (n, out, into), keep, None, room.weight)?;
        // The dropped input is not needed any more; its room takes the gradient before dropout.
        let mut behind = room.dropped.as_mut().ok_or_else(no_room)?.view_mut().slice(0..n * into);
        let a = Mat::new(pair.a.view(), rank, into);
        kernels::matmul(MatMut::new(behind.reborrow(), n, into), Mat::new(d_low, n, rank), a, 1.0, 0.0)?;
        kernels::dropout_add(dx, behind.as_view(), p, key)
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

/// `d_low = s · dy B`, and `dB += s · dyᵀ low`.
fn low_backward(
    pair: &Pair,
    grad: &mut Pair,
    (dy, low): (View<'_>, View<'_>),
    mut d_low: ViewMut<'_>,
    turned: &mut Buf,
    (n, out, rank): (usize, usize, usize),
    scale: f32,
) -> Result<()> {
    if rank <= THIN {
        let mut turned = turned.view_mut().slice(0..rank * out);
        kernels::turn(turned.reborrow(), pair.b.view(), rank)?;
        kernels::thin_product(d_low, dy, turned.as_view(), rank, scale)?;
        return kernels::thin_sum_turned(grad.b.view_mut(), low, dy, rank, scale);
    }
    let (dy, b) = (Mat::new(dy, n, out), Mat::new(pair.b.view(), out, rank));
    kernels::matmul(MatMut::new(d_low.reborrow(), n, rank), dy, b, scale, 0.0)?;
    let db = MatMut::new(grad.b.view_mut(), out, rank);
    kernels::matmul(db, dy.t(), Mat::new(low, n, rank), scale, 1.0)
}

fn no_room() -> Fault {
    Fault::new("model.scratch", "a layer's adapter has no room to work in; this is a bug")
}
