//! The weights with the adapter added in, a window of rows at a time: `W + s · B A` in f32, rounded by whoever writes
//! them down.

use std::ops::Range;

use candle_core::DType;

use super::held::Model;
use super::source::WeightSource;
use super::tensors::{Role, Tensor};
use super::weight::Weight;
use super::windows::{largest_window, rows_under, windows};
use crate::kernels::{self, Mat, MatMut, Spec, ViewMut};
use crate::text::{Fault, Result};

/// What the adapter is added to.
#[derive(Clone, Copy)]
pub enum Base<'a> {
    /// The weights that training saw: widened, or dequantised.
    Held,
    /// The source's own weights.
    Source(&'a dyn WeightSource),
}

/// Bytes that one window of f32 should stay under: two of them, one that is made and one that is written, and what they are
/// made of lie in a core's second cache or not far from it.
const WINDOW_BYTES: usize = 2 << 20;

fn rows_per_window(cols: usize) -> usize {
    rows_under(WINDOW_BYTES, cols)
}

/// The windows of a tensor's rows in which it is merged. They follow from its shape alone, so a model merged at once
/// and one that is streamed are the same bytes.
pub fn merge_windows(tensor: &Tensor) -> impl Iterator<Item = Range<usize>> {
    let (rows, cols) = tensor.dims();
    windows(rows, rows_per_window(cols))
}

/// The largest window of any tensor, to hold one at a time.
pub fn merge_window(tensors: &[Tensor]) -> Spec {
    let elements = |tensor: &Tensor| {
        let (rows, cols) = tensor.dims();
        largest_window(rows, rows_per_window(cols)) * cols
    };
    Spec::f32(&[tensors.iter().map(elements).max().unwrap_or(0)])
}

/// Writes the rows `rows` of a tensor, without what an adapter adds, into `out`, which has exactly their length.
pub fn unmerged(model: &Model, base: Base<'_>, name: &str, rows: Range<usize>, out: ViewMut<'_>) -> Result<()> {
    let (at, tensor) = model.find(name)?;
    let (most, cols) = tensor.dims();
    if rows.start > rows.end || rows.end > most || out.len() != rows.len() * cols {
        return Err(Fault::new(
            "merge.window",
            format!("rows {}..{} of `{name}` do not fit a window of {} values", rows.start, rows.end, out.len()),
        ));
    }
    match base {
        Base::Held => model.tensors[at].write(rows.start * cols..rows.end * cols, out),
        Base::Source(source) => source.read(name, rows, out.cpu::<f32>()?),
    }
}

/// Writes the rows `rows` (one of [`merge_windows`]) of a merged tensor into `out`, which has exactly their length.
/// A tensor without an adapter passes through.
pub fn merged(model: &Model, base: Base<'_>, name: &str, rows: Range<usize>, mut out: ViewMut<'_>) -> Result<()> {
    unmerged(model, base, name, rows.clone(), out.reborrow())?;
    let (_, tensor) = model.find(name)?;
    let (_, cols) = tensor.dims();
    let (Role::Linear(proj), Some(layer), Some(adapter)) = (tensor.role, tensor.layer, &model.adapter) else {
        return Ok(());
    };
    let Some(pair) = adapter.pair(layer, proj) else { return Ok(()) };
    let (rank, count) = (adapter.settings.rank, rows.len());
    let b = Mat::new(pair.b.view().slice(rows.start * rank..rows.end * rank), count, rank);
    let a = Mat::new(pair.a.view(), rank, cols);
    kernels::matmul(MatMut::new(out, count, cols), b, a, adapter.scale, 1.0)
}

impl Weight {
    /// The f32 values of a range of elements.
    pub fn write(&self, elements: Range<usize>, out: ViewMut<'_>) -> Result<()> {
        match self {
            Weight::Dense(buf) => kernels::copy(out, buf.view().slice(elements)),
            Weight::Half(buf) => kernels::widen(out, buf.view().slice(elements)),
            Weight::Mapped(lent) if lent.dtype() == DType::F32 => kernels::copy(out, lent.view().slice(elements)),
            Weight::Mapped(lent) => kernels::widen(out, lent.view().slice(elements)),
            Weight::Nf4(nf4) => nf4.dequantise(out, elements),
        }
    }
}
