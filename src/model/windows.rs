//! Cutting rows into windows whose sizes follow from shapes alone, so that a window's arithmetic is the same whether
//! the windows are kept or streamed.

use std::ops::Range;

/// Rows below this take another path in `gemm` than a full window does, and give other bits.
pub const FEWEST_ROWS: usize = 128;

/// Bytes that one window of f32 should stay under.
const WINDOW_BYTES: usize = 64 << 20;

/// Rows of a window over f32 rows of `width` elements: a multiple of 128, at least 128, and no more than 64 MiB where
/// that allows it.
pub fn rows_per_window(width: usize) -> usize {
    rows_under(WINDOW_BYTES, width)
}

/// The same for another size than 64 MiB.
pub fn rows_under(bytes: usize, width: usize) -> usize {
    let fitting = bytes / 4 / width.max(1);
    (fitting / FEWEST_ROWS * FEWEST_ROWS).max(FEWEST_ROWS)
}

/// `rows` cut into windows of `per` rows; a tail shorter than 128 rows joins the window before it.
pub fn windows(rows: usize, per: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= rows {
            return None;
        }
        let mut end = rows.min(start + per.max(1));
        if rows - end < FEWEST_ROWS {
            end = rows;
        }
        let window = start..end;
        start = end;
        Some(window)
    })
}

/// The most rows any window has when just `rows` rows are cut.
pub fn widest_window(rows: usize, per: usize) -> usize {
    windows(rows, per).map(|window| window.len()).max().unwrap_or(0)
}

/// The most rows any window has when up to `rows` rows are cut: a shorter total can have the longer last window.
pub fn largest_window(rows: usize, per: usize) -> usize {
    rows.min(per + FEWEST_ROWS - 1)
}

/// Rows of a window in which a tensor of `cols` columns is quantised: as [`rows_per_window`], and whole blocks.
pub fn rows_per_block_window(cols: usize, block: usize) -> usize {
    // Blocks and 128 are powers of two, so the larger of the two steps is a multiple of the other.
    let shared = 1usize << cols.trailing_zeros().min(block.trailing_zeros());
    let step = (block / shared).max(FEWEST_ROWS);
    (rows_per_window(cols) / step * step).max(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_window_is_one_of_them_and_no_more_than_any_total_up_to_it_has() {
        for (rows, widest) in
            [(0, 0), (100, 100), (256, 256), (300, 300), (383, 383), (384, 256), (1980, 256), (2047, 256)]
        {
            assert_eq!(widest_window(rows, 256), widest, "{rows}");
            assert!(widest <= largest_window(rows, 256), "{rows}");
        }
        assert_eq!((0..2048).map(|rows| widest_window(rows, 256)).max(), Some(largest_window(2047, 256)));
    }
}
