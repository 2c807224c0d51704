//! How a weight is held, and the products that read it.

use std::ops::Range;

use candle_core::DType;

use super::tensors::Role;
use super::windows::{largest_window, rows_per_window, windows};
use crate::kernels::{self, Buf, Lent, Mat, MatMut, Nf4, Nf4Layout, Spec, Term, View, ViewMut};
use crate::text::Result;

/// A floating-point type that weights are held in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    F32,
    Bf16,
    F16,
}

impl Float {
    pub fn name(self) -> &'static str {
        match self {
            Float::F32 => "f32",
            Float::Bf16 => "bf16",
            Float::F16 => "f16",
        }
    }

    pub fn dtype(self) -> DType {
        match self {
            Float::F32 => DType::F32,
            Float::Bf16 => DType::BF16,
            Float::F16 => DType::F16,
        }
    }
}

/// How the linear layers of the blocks are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    Float(Float),
    /// 4-bit NormalFloat: `block` values share a scale; `double`: the scales are quantised too.
    Nf4 {
        block: usize,
        double: bool,
    },
}

/// How a whole model is held. Norms and biases are always f32: they are small, and read at every token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Linear layers of the blocks.
    pub weights: Held,
    /// Embedding table and output head.
    pub embeddings: Float,
}

impl Form {
    pub fn dense(float: Float) -> Form {
        Form { weights: Held::Float(float), embeddings: float }
    }

    /// What quantising a model held this way makes of it.
    pub fn quantised(self, block: usize, double: bool) -> Form {
        Form { weights: Held::Nf4 { block, double }, ..self }
    }
}

/// The float that a tensor of this role is held in; none: in 4-bit blocks.
pub(super) fn float_of(role: Role, form: Form) -> Option<Float> {
    match (role, form.weights) {
        (Role::Norm | Role::Bias(_), _) => Some(Float::F32),
        (Role::Embedding | Role::Head, _) => Some(form.embeddings),
        (Role::Linear(_), Held::Float(float)) => Some(float),
        (Role::Linear(_), Held::Nf4 { .. }) => None,
    }
}

/// One tensor of a model.
pub enum Weight {
    /// f32.
    Dense(Buf),
    /// bf16 or f16, widened a window at a time.
    Half(Buf),
    /// f32, bf16 or f16 where it lies in a mapped file: read as the two above, and frozen.
    Mapped(Lent),
    /// 4-bit blocks, dequantised a window at a time.
    Nf4(Nf4),
}

/// f32 room that a window of a narrow weight is widened into; absent where every weight is f32.
pub type Scratch = Option<Buf>;

impl Weight {
    /// The f32 values of a range of elements: the weight itself, or `scratch` filled with them.
    pub fn expand<'a>(&'a self, elements: Range<usize>, scratch: &'a mut Scratch) -> Result<View<'a>> {
        if let Some(wide) = self.wide() {
            return Ok(wide.slice(elements));
        }
        let len = elements.len();
        let room = scratch.as_mut().filter(|room| room.len() >= len).ok_or_else(no_room)?;
        let out = room.view_mut().slice(0..len);
        self.write(elements, out)?;
        let room: &'a Buf = room;
        Ok(room.view().slice(0..len))
    }

    /// All f32 values, where it is held in f32.
    pub(super) fn wide(&self) -> Option<View<'_>> {
        match self {
            Weight::Dense(buf) => Some(buf.view()),
            Weight::Mapped(lent) if lent.dtype() == DType::F32 => Some(lent.view()),
            Weight::Mapped(_) | Weight::Half(_) | Weight::Nf4(_) => None,
        }
    }

    /// Windows of rows that are read one at a time: the whole of an f32 weight, else what `scratch` holds.
    fn windows(&self, rows: usize, cols: usize) -> impl Iterator<Item = Range<usize>> {
        let per = if self.wide().is_some() { rows } else { rows_per_window(cols) };
        windows(rows, per)
    }

    /// `y = x · Wᵀ + keep · y` with x `[n, in]`, W `[out, in]`, y `[n, out]`; and an adapter's `low · Bᵀ` with B
    /// `[out, rank]`.
    pub fn project(
        &self,
        y: ViewMut<'_>,
        x: View<'_>,
        dims: Dims,
        keep: f32,
        low: Option<Low<'_>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.project_by(self.windows(dims.1, dims.2), y, x, dims, keep, low, scratch)
    }

    #[allow(clippy::too_many_arguments, reason = "those of `project`, and the windows")]
    fn project_by(
        &self,
        windows: impl Iterator<Item = Range<usize>>,
        mut y: ViewMut<'_>,
        x: View<'_>,
        (n, out, into): Dims,
        keep: f32,
        low: Option<Low<'_>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for rows in windows {
            let w = self.expand(rows.start * into..rows.end * into, scratch)?;
            let len = y.len();
            let y = MatMut::strided(y.reborrow().slice(rows.start..len), n, rows.len(), out, 1);
            let whole = Term { a: Mat::new(x, n, into), b: Mat::new(w, rows.len(), into).t(), alpha: 1.0 };
            let low = low.map(|Low { columns, matrix, rank, scale }| {
                let b = Mat::new(matrix.slice(rows.start * rank..rows.end * rank), rows.len(), rank).t();
                Term { a: Mat::new(columns, n, rank), b, alpha: scale }
            });
            kernels::matmul_sum(y, keep, whole, low)?;
        }
        Ok(())
    }

    /// `dx = dy · W + keep · dx`: the gradient that passes through a linear layer to its input; and an adapter's
    /// `d_low · A` with A `[rank, in]`.
    pub fn project_back(
        &self,
        dx: ViewMut<'_>,
        dy: View<'_>,
        dims: Dims,
        keep: f32,
        low: Option<Low<'_>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.project_back_by(self.windows(dims.1, dims.2), dx, dy, dims, keep, low, scratch)
    }

    #[allow(clippy::too_many_arguments, reason = "those of `project_back`, and the windows")]
    fn project_back_by(
        &self,
        windows: impl Iterator<Item = Range<usize>>,
        mut dx: ViewMut<'_>,
        dy: View<'_>,
        (n, out, into): Dims,
        mut keep: f32,
        low: Option<Low<'_>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for rows in windows {
            let w = self.expand(rows.start * into..rows.end * into, scratch)?;
            let dy = Mat::strided(dy.slice(rows.start..dy.len()), n, rows.len(), out, 1);
            let whole = Term { a: dy, b: Mat::new(w, rows.len(), into), alpha: 1.0 };
            // Once, with the last window.
            let low = low.filter(|_| rows.end == out).map(|Low { columns, matrix, rank, scale }| Term {
                a: Mat::new(columns, n, rank),
                b: Mat::new(matrix, rank, into),
                alpha: scale,
            });
            kernels::matmul_sum(MatMut::new(dx.reborrow(), n, into), keep, whole, low)?;
            keep = 1.0;
        }
        Ok(())
    }
}

/// An adapter's part of a product: columns `[n, rank]`, the matrix they are multiplied by, and by how much.
#[derive(Clone, Copy)]
pub struct Low<'a> {
    pub columns: View<'a>,
    pub matrix: View<'a>,
    pub rank: usize,
    pub scale: f32,
}

/// Tokens, rows of a weight (its outputs), and columns (its inputs).
pub(crate) type Dims = (usize, usize, usize);

fn no_room() -> crate::text::Fault {
    crate::text::Fault::new("model.scratch", "a narrow weight was read without room to widen it; this is a bug")
}

/// f32 elements of scratch that reading weights of these dimensions takes.
pub(crate) fn scratch_elements(rows: usize, cols: usize) -> usize {
    largest_window(rows, rows_per_window(cols)) * cols
}

/// The buffers of a linear weight `[rows, cols]` held so.
pub(crate) fn held_specs(rows: usize, cols: usize, held: Held) -> Result<Vec<Spec>> {
    match held {
        Held::Float(float) => Ok(vec![Spec::new(&[rows, cols], float.dtype())]),
        Held::Nf4 { block, double } => {
            let values = Spec::f32(&[rows, cols]).elements()?;
            Ok(Nf4Layout::new(values, block, double)?.specs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Heap, Key, Pool, fill_normal, narrow};

    fn buf(len: usize, stream: u64) -> Buf {
        let mut buf = Heap.take("", Spec::f32(&[len])).expect("memory");
        fill_normal(buf.view_mut(), 1.0, Key::new(stream)).expect("values");
        buf
    }

    fn values(buf: &Buf) -> Vec<f32> {
        buf.view().cpu::<f32>().expect("f32").to_vec()
    }

    /// A narrow weight read in several windows is the whole weight.
    #[test]
    fn windows_of_a_weight_do_not_change_the_product() {
        let (n, out, into) = (5, 300, 18);
        let mut half = Heap.take("", Spec::new(&[out, into], DType::BF16)).expect("memory");
        narrow(half.view_mut(), buf(out * into, 1).view()).expect("bf16");
        let weight = Weight::Half(half);
        let (x, dy) = (buf(n * into, 2), buf(n * out, 3));
        let (columns, a, b) = (buf(n * 3, 7), buf(3 * into, 8), buf(out * 3, 9));
        let run = |per: usize| {
            let (mut y, mut dx) = (buf(n * out, 4), buf(n * into, 5));
            let mut scratch = Some(buf(largest_window(out, per) * into, 6));
            let cut = || windows(out, per);
            let low = |matrix| Low { columns: columns.view(), matrix, rank: 3, scale: 0.5 };
            let dims = (n, out, into);
            weight.project_by(cut(), y.view_mut(), x.view(), dims, 1.0, Some(low(b.view())), &mut scratch).expect("y");
            let low = Some(low(a.view()));
            weight.project_back_by(cut(), dx.view_mut(), dy.view(), dims, 0.5, low, &mut scratch).expect("dx");
            (values(&y), values(&dx))
        };
        let (whole, cut) = (run(out), run(128));
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close(&whole.0, &cut.0) && close(&whole.1, &cut.1));
        assert!(whole.1 != values(&buf(n * into, 5)));
        let fault = weight.project(buf(n * out, 4).view_mut(), x.view(), (n, out, into), 0.0, None, &mut None);
        assert_eq!(fault.expect_err("a fault").code, "model.scratch");
    }
}
