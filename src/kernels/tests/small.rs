use super::super::small::{Left, Mask, PANEL, Small, lay, turn_into_panels};
use super::*;

/// Which entries of a product's terms count: row, depth and column.
type Counts = fn(usize, usize, usize, isize) -> bool;

/// Every size of register tile, factors either way round, and each mask, against sums in f64.
#[test]
fn a_small_product_is_the_product_of_what_is_seen() {
    for (rows, depth, cols) in [(1, 1, 16), (5, 7, 32), (13, 64, 64), (64, 33, 80), (66, 9, 112)] {
        for seen in [-9isize, 0, 1, 20, 100] {
            check(rows, depth, cols, Mask::Scores { seen }, seen, |_, _, _, _| true);
            check(rows, depth, cols, Mask::OverKeys { seen }, seen, |row, key, _, seen| {
                (key as isize) < seen + row as isize
            });
            check(rows, depth, cols, Mask::OverQueries { seen }, seen, |key, row, _, seen| {
                (key as isize) < seen + row as isize
            });
        }
    }
}

fn check(rows: usize, depth: usize, cols: usize, mask: Mask, seen: isize, counts: Counts) {
    let (c_row, right_row) = (cols + 3, cols + 16);
    let (left, right, before) = (noise(rows * depth, 1), noise(depth * right_row, 2), noise(rows * c_row, 3));
    for turned in [false, true] {
        // Hidden entries of the left factor are zeros, as the caller keeps them.
        let mut of = vec![0.0; rows * depth];
        let (row, apart) = if turned { (1, rows) } else { (depth, 1) };
        for r in 0..rows {
            for p in 0..depth {
                of[r * row + p * apart] = if counts(r, p, 0, seen) { left[r * depth + p] } else { 0.0 };
            }
        }
        for add in [false, true] {
            let mut c = before.clone();
            let left = Left { of: &of, row, depth: apart };
            Small { c: &mut c, c_row, left, right: &right, right_row, rows, cols, depth, alpha: 0.5, add, mask }
                .multiply();
            for r in 0..rows {
                for col in 0..cols {
                    let at = r * c_row + col;
                    if matches!(mask, Mask::Scores { .. }) && (col as isize) >= seen + r as isize {
                        continue;
                    }
                    let sum: f64 = (0..depth)
                        .map(|p| f64::from(of[r * row + p * apart]) * f64::from(right[p * right_row + col]))
                        .sum();
                    let wanted = 0.5 * sum + if add { f64::from(before[at]) } else { 0.0 };
                    assert!(
                        (f64::from(c[at]) - wanted).abs() < 1e-4,
                        "{rows} × {depth} × {cols}, {mask:?}: {r}, {col}"
                    );
                }
                // What lies between the rows is not the product's.
                assert_eq!(c[r * c_row + cols..][..3], before[r * c_row + cols..][..3]);
            }
        }
    }
}

#[test]
fn rows_are_turned_into_panels_and_laid_side_by_side() {
    for (rows, cols) in [(1, 1), (64, 64), (67, 6), (130, 9)] {
        let apart = cols + 2;
        let from = noise(rows * apart, 4);
        let mut panels = vec![7.0; rows.next_multiple_of(PANEL) * cols];
        turn_into_panels(&mut panels, &from, apart, rows, cols);
        let mut laid = vec![7.0; rows * (cols + 5)];
        lay(&mut laid, cols + 5, &from, apart, rows, cols);
        for row in 0..rows.next_multiple_of(PANEL) {
            for col in 0..cols {
                let wanted = if row < rows { from[row * apart + col] } else { 0.0 };
                assert_eq!(panels[row / PANEL * PANEL * cols + col * PANEL + row % PANEL], wanted);
                if row < rows {
                    assert_eq!(laid[row * (cols + 5) + col], wanted);
                }
            }
        }
        assert!(laid.chunks_exact(cols + 5).all(|row| row[cols..].iter().all(|x| *x == 0.0)));
    }
}

#[test]
#[should_panic(expected = "the right factor is out of range")]
fn a_small_product_stays_inside_its_factors() {
    let (mut c, left, right) = ([0.0; 16], [1.0; 2], [1.0; 31]);
    let left = Left { of: &left, row: 2, depth: 1 };
    let mask = Mask::Scores { seen: 16 };
    Small {
        c: &mut c,
        c_row: 16,
        left,
        right: &right,
        right_row: 16,
        rows: 1,
        cols: 16,
        depth: 2,
        alpha: 1.0,
        add: false,
        mask,
    }
    .multiply();
}
