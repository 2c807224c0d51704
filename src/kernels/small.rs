//! Products of matrices that a core's cache holds, as attention's blocks are: nothing is packed.
//!
//! `gemm` packs its factors anew in every call, which at a depth of one head costs as much as a third of the product.
//! Here the right factor is read as it lies, whole vectors at a time, the left one number by number, whichever way its
//! entries are apart, and sums stay in registers over the whole depth. What attention's mask hides is passed over as
//! finely as the register tiles allow. An entry's sum runs over its depth in order, so it depends on shapes alone.

use pulp::Simd;

/// Columns come in multiples of this, which every machine's vectors divide.
pub(super) const VECTOR: usize = 16;
/// Columns up to which a row of the right factor is read side by side with the rows below it.
pub(super) const PANEL: usize = 64;

/// The left factor: entry (row, depth) at `row · row_stride + depth · depth_stride`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub of: &'a [f32],
    pub row: usize,
    pub depth: usize,
}

/// What a mask lets matter of scores (query, key), where query `i` sees the first `seen + i` keys; `seen` may be
/// negative, where the keys are not a segment's first.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mask {
    /// Rows are queries, columns keys: hidden entries may keep what they were.
    Scores { seen: isize },
    /// Rows are queries, depth is keys: hidden entries of the left factor count as zeros or are zeros.
    OverKeys { seen: isize },
    /// Rows are keys, depth is queries: likewise.
    OverQueries { seen: isize },
}

/// c = alpha · left · right, or c += it.
pub(super) struct Small<'a> {
    /// `[rows, cols]`, rows `c_row` apart.
    pub c: &'a mut [f32],
    pub c_row: usize,
    pub left: Left<'a>,
    /// `[depth, cols]`, rows `right_row` apart.
    pub right: &'a [f32],
    pub right_row: usize,
    pub rows: usize,
    pub cols: usize,
    pub depth: usize,
    pub alpha: f32,
    pub add: bool,
    pub mask: Mask,
}

impl Small<'_> {
    pub fn multiply(self) {
        pulp::Arch::new().dispatch(self);
    }

    /// Holds every address below to the slices; `cols` is a multiple of [`VECTOR`].
    fn check(&self) {
        let last = |rows: usize, apart: usize| rows.saturating_sub(1) * apart;
        assert!(self.cols.is_multiple_of(VECTOR), "columns are no whole vectors");
        if self.rows == 0 || self.cols == 0 {
            return;
        }
        assert!(last(self.rows, self.c_row) + self.cols <= self.c.len(), "`c` is out of range");
        if self.depth == 0 {
            return;
        }
        let left = last(self.rows, self.left.row) + last(self.depth, self.left.depth);
        assert!(left < self.left.of.len(), "the left factor is out of range");
        assert!(last(self.depth, self.right_row) + self.cols <= self.right.len(), "the right factor is out of range");
    }

    /// The depth that matters to a tile's rows, and the columns.
    #[inline(always)]
    fn limits(&self, row: usize, tall: usize) -> (usize, usize, usize) {
        let (first, last) = (row as isize, (row + tall - 1) as isize);
        match self.mask {
            Mask::Scores { seen } => (0, self.depth, (seen + last).clamp(0, self.cols as isize) as usize),
            Mask::OverKeys { seen } => (0, (seen + last).clamp(0, self.depth as isize) as usize, self.cols),
            Mask::OverQueries { seen } => {
                ((first - seen + 1).clamp(0, self.depth as isize) as usize, self.depth, self.cols)
            }
        }
    }
}

impl pulp::WithSimd for Small<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.check();
        // Sums of six rows and four vectors fill 24 of 32 registers; half as many vectors 12 of 16.
        let widest = if S::REGISTER_COUNT >= 32 { 4 } else { 2 };
        for col in (0..self.cols).step_by(widest * S::F32_LANES) {
            let mut row = 0;
            while row < self.rows {
                let tall = match self.rows - row {
                    6.. => 6,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                let (from, to, cols) = self.limits(row, tall);
                let wide = widest.min(cols.saturating_sub(col).div_ceil(S::F32_LANES));
                if wide > 0 {
                    let at = At { row, col, from, to: to.max(from) };
                    match (tall, wide) {
                        (6, 4) => tile::<S, 6, 4>(simd, &mut self, at),
                        (6, 3) => tile::<S, 6, 3>(simd, &mut self, at),
                        (6, 2) => tile::<S, 6, 2>(simd, &mut self, at),
                        (6, _) => tile::<S, 6, 1>(simd, &mut self, at),
                        (4, 4) => tile::<S, 4, 4>(simd, &mut self, at),
                        (4, 3) => tile::<S, 4, 3>(simd, &mut self, at),
                        (4, 2) => tile::<S, 4, 2>(simd, &mut self, at),
                        (4, _) => tile::<S, 4, 1>(simd, &mut self, at),
                        (2, 4) => tile::<S, 2, 4>(simd, &mut self, at),
                        (2, 3) => tile::<S, 2, 3>(simd, &mut self, at),
                        (2, 2) => tile::<S, 2, 2>(simd, &mut self, at),
                        (2, _) => tile::<S, 2, 1>(simd, &mut self, at),
                        (_, 4) => tile::<S, 1, 4>(simd, &mut self, at),
                        (_, 3) => tile::<S, 1, 3>(simd, &mut self, at),
                        (_, 2) => tile::<S, 1, 2>(simd, &mut self, at),
                        (_, _) => tile::<S, 1, 1>(simd, &mut self, at),
                    }
                }
                row += tall;
            }
        }
    }
}

/// Where a tile lies, and its part of the depth.
#[derive(Clone, Copy)]
struct At {
    row: usize,
    col: usize,
    from: usize,
    to: usize,
}

/// `R` rows of `V` vectors of the output.
#[allow(clippy::needless_range_loop, reason = "indices below constants unroll")]
#[inline(always)]
fn tile<S: Simd, const R: usize, const V: usize>(simd: S, of: &mut Small<'_>, at: At) {
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    let Left { of: left, row: left_row, depth: left_depth } = of.left;
    let lanes = S::F32_LANES;
    // SAFETY: `check` held the last address of each factor and of the output to its slice, and a tile's rows, columns
    // and depth lie within the product's: columns are whole vectors of `VECTOR`, which lanes divide.
    unsafe {
        let left = left.as_ptr().add(at.row * left_row);
        let right = of.right.as_ptr().add(at.col);
        for p in at.from..at.to {
            let (left, right) = (left.add(p * left_depth), right.add(p * of.right_row));
            let mut across = [simd.splat_f32s(0.0); V];
            for v in 0..V {
                across[v] = right.add(v * lanes).cast::<S::f32s>().read_unaligned();
            }
            for r in 0..R {
                let down = simd.splat_f32s(*left.add(r * left_row));
                for v in 0..V {
                    sums[r][v] = simd.mul_add_e_f32s(down, across[v], sums[r][v]);
                }
            }
        }
        let alpha = simd.splat_f32s(of.alpha);
        let c = of.c.as_mut_ptr().add(at.row * of.c_row + at.col);
        for r in 0..R {
            for v in 0..V {
                let c = c.add(r * of.c_row + v * lanes).cast::<S::f32s>();
                let sum = if of.add {
                    simd.mul_add_e_f32s(alpha, sums[r][v], c.read_unaligned())
                } else {
                    simd.mul_f32s(alpha, sums[r][v])
                };
                c.write_unaligned(sum);
            }
        }
    }
}

/// Turns `rows` rows of `cols` numbers, `from_row` apart, into columns of panels: `to` `[panels, cols, PANEL]`, zeros
/// where the last panel has no row.
pub(super) fn turn_into_panels(to: &mut [f32], from: &[f32], from_row: usize, rows: usize, cols: usize) {
    const SIDE: usize = 4;
    for (panel, to) in to.chunks_exact_mut(cols * PANEL).take(rows.div_ceil(PANEL)).enumerate() {
        let first = panel * PANEL;
        let some = PANEL.min(rows - first);
        let whole = some / SIDE * SIDE;
        for row in (0..whole).step_by(SIDE) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| &from[(first + row + i) * from_row..][..cols]);
            let squares = a.as_chunks::<SIDE>().0.iter().zip(b.as_chunks::<SIDE>().0);
            let squares = squares.zip(c.as_chunks::<SIDE>().0.iter().zip(d.as_chunks::<SIDE>().0));
            for (((a, b), (c, d)), to) in squares.zip(to.chunks_exact_mut(SIDE * PANEL)) {
                for i in 0..SIDE {
                    to[i * PANEL + row..][..SIDE].copy_from_slice(&[a[i], b[i], c[i], d[i]]);
                }
            }
            for col in cols / SIDE * SIDE..cols {
                to[col * PANEL + row..][..SIDE].copy_from_slice(&[a[col], b[col], c[col], d[col]]);
            }
        }
        for row in whole..some {
            for (col, x) in from[(first + row) * from_row..][..cols].iter().enumerate() {
                to[col * PANEL + row] = *x;
            }
        }
        if some < PANEL {
            to.chunks_exact_mut(PANEL).for_each(|to| to[some..].fill(0.0));
        }
    }
}

/// Lays rows of `cols` numbers, `from_row` apart, side by side, `apart` apart, with zeros between.
pub(super) fn lay(to: &mut [f32], apart: usize, from: &[f32], from_row: usize, rows: usize, cols: usize) {
    for (row, to) in to.chunks_exact_mut(apart).take(rows).enumerate() {
        let (to, rest) = to.split_at_mut(cols);
        to.copy_from_slice(&from[row * from_row..][..cols]);
        rest.fill(0.0);
    }
}
