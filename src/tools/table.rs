//! Columns that line up: words to the left, numbers to the right.

use crate::text::shown;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells, printed with two spaces between columns and none at the end of a line.
#[derive(Debug, Default)]
pub struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(align: &[Align]) -> Self {
        Table { align: align.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| shown(&cell).replace('\n', "␤")).collect());
    }

    pub fn render(&self, indent: &str) -> String {
        self.painted(indent, &|_, _, cell| cell.to_owned())
    }

    /// As [`Self::render`], each cell (row, column, text) through `ink`, which must not change its width.
    pub fn painted(&self, indent: &str, ink: &dyn Fn(usize, usize, &str) -> String) -> String {
        let width = |cell: &str| cell.chars().count();
        let mut widths = vec![0usize; self.align.len()];
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(width(cell));
            }
        }
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = indent.to_owned();
            for (column, ((cell, most), align)) in row.iter().zip(&widths).zip(&self.align).enumerate() {
                let pad = " ".repeat(most - width(cell));
                let cell = ink(at, column, cell);
                match align {
                    Align::Left => line.extend([&*cell, &pad, "  "]),
                    Align::Right => line.extend([&*pad, &cell, "  "]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_left_numbers_right_no_trailing_blanks() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(vec!["stage".into(), "RAM".into(), String::new()]);
        table.row(vec!["é".into(), "1.00 GiB".into(), "peak".into()]);
        assert_eq!(table.render(" "), " stage       RAM\n é      1.00 GiB  peak\n");
    }
}
