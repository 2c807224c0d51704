//! Products of matrices: the one door to the `gemm` crate.
//!
//! `gemm` gives the same bits on any number of threads (a test holds it to that), but not for any cut: a product of
//! one row, or of at most 16 × 16 results, goes through other code than a larger one. Callers that cut rows into
//! chunks keep every chunk well above that, the last one included. [`cut`](super::cut) does so when it spreads a product
//! over threads.
//!
//! `gemm` packs operands into memory of its own: some MiB a call at most, and one L2 cache's worth a thread for good.

use std::marker::PhantomData;
use std::ops::Range;

use gemm::Parallelism;
use rayon::prelude::*;

use super::clock::{Work, running};
use super::cut::{Cost, PACK, READ, cut};
use super::shape::wrong;
use super::{View, ViewMut};
use crate::text::Result;

/// A matrix to read: `rows` × `cols` f32 at (row · row_stride + col · col_stride) of a view.
#[derive(Clone, Copy)]
pub struct Mat<'a> {
    view: View<'a>,
    form: Form,
}

/// A matrix to write.
pub struct MatMut<'a> {
    view: ViewMut<'a>,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
struct Form {
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Mat<'a> {
    /// A row-major matrix that fills its view.
    pub fn new(view: View<'a>, rows: usize, cols: usize) -> Self {
        Self::strided(view, rows, cols, cols, 1)
    }

    pub fn strided(view: View<'a>, rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Self {
        Mat { view, form: Form { rows, cols, row_stride, col_stride } }
    }

    /// The transpose; nothing moves.
    pub fn t(self) -> Self {
        Mat { form: self.form.t(), ..self }
    }
}

impl<'a> MatMut<'a> {
    /// A row-major matrix that fills its view.
    pub fn new(view: ViewMut<'a>, rows: usize, cols: usize) -> Self {
        Self::strided(view, rows, cols, cols, 1)
    }

    pub fn strided(view: ViewMut<'a>, rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Self {
        MatMut { view, form: Form { rows, cols, row_stride, col_stride } }
    }

    /// The transpose; nothing moves.
    pub fn t(self) -> Self {
        MatMut { form: self.form.t(), ..self }
    }
}

impl Form {
    fn t(self) -> Self {
        Form { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// One past the last element's offset; none where that overflows.
    fn extent(self) -> Option<usize> {
        if self.rows == 0 || self.cols == 0 {
            return Some(0);
        }
        let down = (self.rows - 1).checked_mul(self.row_stride)?;
        let across = (self.cols - 1).checked_mul(self.col_stride)?;
        down.checked_add(across)?.checked_add(1)
    }

    fn fits(self, len: usize) -> bool {
        self.extent().is_some_and(|extent| extent <= len)
    }

    /// Whether no two entries share an element.
    fn is_injective(self) -> bool {
        let (inner, inner_stride, outer, outer_stride) = if self.col_stride <= self.row_stride {
            (self.cols, self.col_stride, self.rows, self.row_stride)
        } else {
            (self.rows, self.row_stride, self.cols, self.col_stride)
        };
        (inner <= 1 || inner_stride > 0) && (outer <= 1 || outer_stride > inner.saturating_sub(1) * inner_stride)
    }
}

/// A product and its weight in a sum.
#[derive(Clone, Copy)]
pub struct Term<'a> {
    pub a: Mat<'a>,
    pub b: Mat<'a>,
    pub alpha: f32,
}

/// c = alpha · a·b + beta · c. With `beta` 0, `c` is not read.
///
/// `a` is m × k, `b` k × n, `c` m × n.
pub fn matmul(c: MatMut<'_>, a: Mat<'_>, b: Mat<'_>, alpha: f32, beta: f32) -> Result<()> {
    matmul_sum(c, beta, Term { a, b, alpha }, None)
}

/// c = beta · c + `first` + `second`: as two products one after the other, to the bit, but that a part of `c` takes the
/// second while it is still in the cache.
pub fn matmul_sum(c: MatMut<'_>, beta: f32, first: Term<'_>, second: Option<Term<'_>>) -> Result<()> {
    let cf = c.form;
    if !cf.fits(c.view.len()) {
        return Err(misfit("c", cf, c.view.len()));
    }
    if !cf.is_injective() {
        return Err(wrong("the rows of `c` overlap".to_owned()));
    }
    let first = checked(cf, first)?;
    let second = second.map(|term| checked(cf, term)).transpose()?;
    let thin = cf.rows.min(cf.cols).min(first.a.form.cols) <= 64;
    let _clock = running(if thin { Work::ThinProducts } else { Work::Products });
    let mut c = TileMut::checked(c.view.cpu()?, cf);
    // What `gemm` packs: `b` across the columns where a column of it is not side by side, `a` where its rows are not.
    let cost = Cost {
        row: if first.a.form.col_stride == 1 { READ } else { PACK },
        col: if first.b.form.col_stride == 1 { READ } else { PACK },
    };
    let threads = rayon::current_num_threads();
    let Some(cut) = cut(cf.rows, cf.cols, threads, cost).filter(|_| cf.col_stride == 1) else {
        multiply(c.reborrow(), first.a, first.b, first.alpha, beta, Parallelism::Rayon(0));
        if let Some(Factors { a, b, alpha }) = second {
            multiply(c, a, b, alpha, 1.0, Parallelism::Rayon(0));
        }
        return Ok(());
    };
    let shared = c.share();
    cut.parts(cf.rows, cf.cols).into_par_iter().with_max_len(1).for_each(|(row, rows, col, cols)| {
        // SAFETY: parts of a cut do not overlap (a test holds them to it), and each is one task's.
        let mut part = unsafe { shared.tile(row * cf.row_stride + col, rows, cols, cf.row_stride) };
        let mut add = |Factors { a, b, alpha }: Factors<'_>, beta| {
            multiply_alone(
                part.reborrow(),
                a.part(row..row + rows, 0..a.form.cols),
                b.part(0..b.form.rows, col..col + cols),
                alpha,
                beta,
            );
        };
        add(first, beta);
        if let Some(second) = second {
            add(second, 1.0);
        }
    });
    Ok(())
}

/// A term whose factors are known to fit each other, the output and their memory.
#[derive(Clone, Copy)]
struct Factors<'a> {
    a: Tile<'a>,
    b: Tile<'a>,
    alpha: f32,
}

fn checked<'a>(cf: Form, Term { a, b, alpha }: Term<'a>) -> Result<Factors<'a>> {
    let (af, bf) = (a.form, b.form);
    if af.cols != bf.rows || cf.rows != af.rows || cf.cols != bf.cols {
        return Err(wrong(format!(
            "a {} × {} matrix times a {} × {} matrix does not make a {} × {} matrix",
            af.rows, af.cols, bf.rows, bf.cols, cf.rows, cf.cols
        )));
    }
    for (name, form, len) in [("a", af, a.view.len()), ("b", bf, b.view.len())] {
        if !form.fits(len) {
            return Err(misfit(name, form, len));
        }
    }
    Ok(Factors { a: Tile::checked(a.view.cpu()?, af), b: Tile::checked(b.view.cpu()?, bf), alpha })
}

fn misfit(name: &str, form: Form, len: usize) -> crate::text::Fault {
    wrong(format!(
        "`{name}`, a {} × {} matrix with strides {} and {}, does not fit into {len} elements",
        form.rows, form.cols, form.row_stride, form.col_stride
    ))
}

/// [`matmul`] on the calling thread, for kernels that spread their work themselves.
pub(super) fn multiply_alone(c: TileMut<'_>, a: Tile<'_>, b: Tile<'_>, alpha: f32, beta: f32) {
    multiply(c, a, b, alpha, beta, Parallelism::None);
}

/// A part of a matrix in RAM, known to lie inside its slice.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    at: *const f32,
    form: Form,
    life: PhantomData<&'a [f32]>,
}

/// The same to write; no two entries share an element.
pub(super) struct TileMut<'a> {
    at: *mut f32,
    form: Form,
    life: PhantomData<&'a mut [f32]>,
}

impl<'a> Tile<'a> {
    fn checked(slice: &'a [f32], form: Form) -> Self {
        assert!(form.fits(slice.len()), "tile out of range");
        Tile { at: slice.as_ptr(), form, life: PhantomData }
    }

    /// `rows` × `cols` at the head of a slice, rows `stride` apart.
    pub(super) fn rows(slice: &'a [f32], rows: usize, cols: usize, stride: usize) -> Self {
        Self::checked(slice, Form { rows, cols, row_stride: stride, col_stride: 1 })
    }

    pub(super) fn t(self) -> Self {
        Tile { form: self.form.t(), ..self }
    }

    /// The rows and columns of a part.
    fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let Form { row_stride, col_stride, .. } = self.form;
        assert!(rows.start <= rows.end && rows.end <= self.form.rows, "part out of range");
        assert!(cols.start <= cols.end && cols.end <= self.form.cols, "part out of range");
        let form = Form { rows: rows.len(), cols: cols.len(), row_stride, col_stride };
        let start =
            if form.rows == 0 || form.cols == 0 { 0 } else { rows.start * row_stride + cols.start * col_stride };
        // SAFETY: the part's first entry is an entry of this tile, which lies inside its slice.
        Tile { at: unsafe { self.at.add(start) }, form, life: PhantomData }
    }
}

// SAFETY: a tile is a shared borrow of floats.
unsafe impl Send for Tile<'_> {}
// SAFETY: as above.
unsafe impl Sync for Tile<'_> {}

impl<'a> TileMut<'a> {
    fn checked(slice: &'a mut [f32], form: Form) -> Self {
        assert!(form.fits(slice.len()) && form.is_injective(), "tile out of range");
        TileMut { at: slice.as_mut_ptr(), form, life: PhantomData }
    }

    /// `rows` × `cols` at the head of a slice, rows `stride` apart.
    pub(super) fn rows(slice: &'a mut [f32], rows: usize, cols: usize, stride: usize) -> Self {
        Self::checked(slice, Form { rows, cols, row_stride: stride, col_stride: 1 })
    }

    /// One row, of a tile whose columns lie side by side.
    pub(super) fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.form.rows && self.form.col_stride == 1, "row out of range");
        // SAFETY: the tile lies inside its slice (checked when it was made), and this row inside the tile; the borrow
        // of `self` keeps rows from being handed out twice.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(row * self.form.row_stride), self.form.cols) }
    }

    pub(super) fn reborrow(&mut self) -> TileMut<'_> {
        TileMut { at: self.at, form: self.form, life: PhantomData }
    }

    /// The same memory, to be written by several tasks in parts.
    fn share(&mut self) -> Shared<'_> {
        Shared { at: self.at, len: self.form.extent().unwrap_or(0), life: PhantomData }
    }
}

/// An output that tasks on several threads write in interleaved parts, like the heads' columns of one matrix.
pub(super) struct Shared<'a> {
    at: *mut f32,
    len: usize,
    life: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `Shared` only gives access through `tile`, whose caller promises that tiles in use do not overlap.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(super) fn new(slice: &'a mut [f32]) -> Self {
        Shared { at: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// `rows` × `cols` from element `start` on, rows `stride` apart.
    ///
    /// # Safety
    /// No entry of the tile may be part of another tile that is in use at the same time.
    pub(super) unsafe fn tile(&self, start: usize, rows: usize, cols: usize, stride: usize) -> TileMut<'a> {
        let form = Form { rows, cols, row_stride: stride, col_stride: 1 };
        assert!(start <= self.len && form.fits(self.len - start) && form.is_injective(), "tile out of range");
        // SAFETY: `start` is at most `len`.
        TileMut { at: unsafe { self.at.add(start) }, form, life: PhantomData }
    }
}

fn multiply(c: TileMut<'_>, a: Tile<'_>, b: Tile<'_>, alpha: f32, beta: f32, parallelism: Parallelism) {
    let (m, n, k) = (c.form.rows, c.form.cols, a.form.cols);
    assert!(a.form.rows == m && b.form.rows == k && b.form.cols == n, "factors do not fit");
    // SAFETY: every tile lies inside the slice it was made from (checked when it was made) and the slices of `a` and
    // `b` cannot be that of `c`, which is borrowed mutably. Strides of addressable tiles fit isize.
    // gemm's own `alpha` multiplies what is there already, its `beta` the product.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.at,
            c.form.col_stride as isize,
            c.form.row_stride as isize,
            beta != 0.0,
            a.at,
            a.form.col_stride as isize,
            a.form.row_stride as isize,
            b.at,
            b.form.col_stride as isize,
            b.form.row_stride as isize,
            beta,
            alpha,
            false,
            false,
            false,
            parallelism,
        );
    }
}
