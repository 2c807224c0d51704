//! How one product is cut into tasks.
//!
//! `gemm` packs a factor that lies across its grain on one thread before the others begin, and for a weight as it is
//! stored that costs as much as a tenth of the product. Parts of the output that are whole products of their own pack in
//! parallel, and what is added to the same output can be added while it is still in the cache.
//!
//! Where the cuts fall leaves no trace: the depth of a product is never cut, every part starts where one of `gemm`'s
//! register tiles does, and none is so small that `gemm` takes another path. Tests hold that to the bit.

/// Rows and columns of every part but the last of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub rows: usize,
    pub cols: usize,
}

/// Products below this are left to `gemm`, which has paths of its own for them.
pub(super) const FEWEST_ROWS: usize = 128;
const FEWEST_COLS: usize = 96;
/// `gemm`'s largest register tile, in the terms of a row-major output, is 8 rows of 48 columns.
const TILE_ROWS: usize = 8;
const TILE_COLS: usize = 48;
/// Parts along the rows: few, so that no last one is short.
const MOST_DOWN: usize = 8;
/// Columns that a task's share of the cache holds.
const MOST_COLS: usize = 384;

/// What a task pays for each row and each column beside their product, in multiplications: packing where a factor lies
/// across the grain, reading where it does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub row: usize,
    pub col: usize,
}

pub(super) const READ: usize = 8;
pub(super) const PACK: usize = 38;

/// The cut of an `m` × `n` output that takes `threads` threads the least time; none where it stays whole.
pub(super) fn cut(m: usize, n: usize, threads: usize, cost: Cost) -> Option<Cut> {
    if m < FEWEST_ROWS || n < FEWEST_COLS {
        return None;
    }
    let mut best: Option<(usize, Cut)> = None;
    let widest = n / FEWEST_COLS;
    for down in 1..=MOST_DOWN.min(m / (FEWEST_ROWS + TILE_ROWS * MOST_DOWN)).max(1) {
        let rows = m.div_ceil(down).next_multiple_of(TILE_ROWS);
        for across in n.div_ceil(MOST_COLS).min(widest)..=widest.min(n.div_ceil(MOST_COLS) + 4 * threads) {
            let cols = n.div_ceil(across).next_multiple_of(TILE_COLS);
            let waves = (m.div_ceil(rows) * n.div_ceil(cols)).div_ceil(threads.max(1));
            let area = rows.min(m).saturating_mul(cols.min(n));
            let time = waves.saturating_mul(area + cost.row * rows + cost.col * cols);
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, Cut { rows, cols }));
            }
        }
    }
    best.map(|(_, cut)| cut)
}

impl Cut {
    /// Where the parts of an `m` × `n` output lie, as `(first row, rows, first column, columns)`: the parts of a row of
    /// parts side by side. A remainder of less than a tile's columns joins the part before it.
    pub fn parts(self, m: usize, n: usize) -> Vec<(usize, usize, usize, usize)> {
        let mut parts = Vec::new();
        for row in (0..m).step_by(self.rows) {
            let mut col = 0;
            while col < n {
                let rest = n - col - self.cols.min(n - col);
                let cols = if rest < TILE_COLS { n - col } else { self.cols };
                parts.push((row, self.rows.min(m - row), col, cols));
                col += cols;
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_output_once_and_none_is_short() {
        let cost = Cost { row: READ, col: PACK };
        for threads in [1, 2, 3, 8, 64] {
            for (m, n) in [(128, 96), (129, 97), (300, 131), (1024, 576), (1025, 577), (1020, 49152), (5000, 1009)] {
                let cut = cut(m, n, threads, cost).expect("large enough");
                let mut seen = vec![0u8; m * n];
                for (row, rows, col, cols) in cut.parts(m, n) {
                    assert!(row % TILE_ROWS == 0 && col % TILE_COLS == 0, "{m}×{n} on {threads}: {cut:?}");
                    assert!(rows >= 65 && cols >= TILE_COLS, "{m}×{n} on {threads}: {rows}×{cols} of {cut:?}");
                    for row in row..row + rows {
                        seen[row * n + col..row * n + col + cols].iter_mut().for_each(|seen| *seen += 1);
                    }
                }
                assert!(seen.iter().all(|times| *times == 1), "{m}×{n} on {threads}: {cut:?}");
            }
        }
        assert_eq!((cut(127, 576, 2, cost), cut(1024, 95, 2, cost)), (None, None));
    }

    #[test]
    fn work_is_even() {
        let cost = Cost { row: READ, col: PACK };
        for (n, threads, parts) in [(576, 2, 2), (1536, 2, 4), (576, 3, 3), (192, 2, 2)] {
            assert_eq!(cut(1024, n, threads, cost).expect("large enough").parts(1024, n).len() % parts, 0, "{n}");
        }
    }
}
