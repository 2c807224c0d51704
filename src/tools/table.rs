//! Columns that line up: words to the left, numbers to the right. On a screen that is too narrow for them, a paragraph
//! a row.

use super::paper::Paper;
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
    /// Whether the first row names the columns.
    headed: bool,
    /// The column that only draws what another says.
    drawn: Option<usize>,
}

/// What paints a cell (row, column, text); it must not change its width.
type Brush<'a> = &'a dyn Fn(usize, usize, &str) -> String;

impl Table {
    pub fn new(align: &[Align]) -> Self {
        Table { align: align.to_vec(), ..Table::default() }
    }

    /// The first row names the columns.
    pub fn headed(self) -> Self {
        Table { headed: true, ..self }
    }

    /// A column that says nothing of its own goes first where there is little room.
    pub fn drawn(self, column: usize) -> Self {
        Table { drawn: Some(column), ..self }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| shown(&cell).replace('\n', "␤")).collect());
    }

    /// In columns, however wide.
    pub fn render(&self, indent: &str) -> String {
        self.painted(indent, Paper::plain(), &|_, _, cell| cell.to_owned())
    }

    /// As it fits the paper, each cell through `ink`.
    pub fn painted(&self, indent: &str, paper: Paper, ink: Brush) -> String {
        let start = count(indent);
        match (self.drawn, paper.screen.then_some(paper.width)) {
            (_, None) => self.columns(indent, None, ink),
            (_, Some(width)) if start + self.width(None) <= width => self.columns(indent, None, ink),
            (Some(_), Some(width)) if start + self.width(self.drawn) <= width => self.columns(indent, self.drawn, ink),
            (_, Some(width)) => self.paragraphs(indent, width, ink),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0usize; self.align.len()];
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(count(cell));
            }
        }
        widths
    }

    /// Columns of the longest row's line, without one of them.
    fn width(&self, without: Option<usize>) -> usize {
        let widths = self.widths();
        let line = |row: &Vec<String>| {
            let (mut at, mut end) = (0, 0);
            for (column, (cell, most)) in row.iter().zip(&widths).enumerate().filter(|(n, _)| Some(*n) != without) {
                let width = if self.align.get(column) == Some(&Align::Left) { count(cell) } else { *most };
                end = if cell.is_empty() { end } else { at + width };
                at += most + 2;
            }
            end
        };
        self.rows.iter().map(line).max().unwrap_or(0)
    }

    fn columns(&self, indent: &str, without: Option<usize>, ink: Brush) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = indent.to_owned();
            for (column, ((cell, most), align)) in row.iter().zip(&widths).zip(&self.align).enumerate() {
                if Some(column) == without {
                    continue;
                }
                let pad = " ".repeat(most - count(cell));
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

    /// A row a paragraph: its first cell, then the others, a number behind the name of its column.
    fn paragraphs(&self, indent: &str, width: usize, ink: Brush) -> String {
        let mut out = String::new();
        let head = self.rows.first().filter(|_| self.headed);
        for (at, row) in self.rows.iter().enumerate().skip(usize::from(self.headed)) {
            let first = row.first().map_or("", |cell| cell);
            // A row that belongs to the one above is set in.
            let lead = if first.starts_with(' ') || first.is_empty() { 2 } else { 0 };
            let mut flow = Flow { out: &mut out, indent: count(indent) + lead, width, column: 0, later: false };
            flow.cell(None, first, &|text| ink(at, 0, text));
            if self.headed && !first.trim().is_empty() {
                flow.end();
            }
            for (column, cell) in row.iter().enumerate().skip(1) {
                if Some(column) == self.drawn || (self.headed && cell == "–") {
                    continue;
                }
                let name = head.and_then(|head| head.get(column)).filter(|name| !name.is_empty());
                // A sentence says of itself what it is.
                let sentence = self.align.get(column) == Some(&Align::Left) && cell.contains(' ');
                flow.cell(name.filter(|_| !sentence).map(String::as_str), cell, &|text| ink(at, column, text));
            }
            flow.end();
        }
        out
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// Cells one behind another in lines of a width; lines behind the first of a paragraph are set in.
struct Flow<'a> {
    out: &'a mut String,
    indent: usize,
    width: usize,
    /// Where the line has come to; 0: at its start.
    column: usize,
    /// Whether a line was ended already.
    later: bool,
}

impl Flow<'_> {
    /// A cell stays in one line where it fits one.
    fn cell(&mut self, name: Option<&str>, cell: &str, ink: &dyn Fn(&str) -> String) {
        let words: Vec<&str> = cell.split_whitespace().collect();
        if words.is_empty() {
            return;
        }
        let whole =
            name.map_or(0, |name| count(name) + 1) + words.iter().map(|word| count(word) + 1).sum::<usize>() - 1;
        if self.column > 0 && self.column + 2 + whole > self.width {
            self.end();
        }
        for (at, word) in name.into_iter().chain(words).enumerate() {
            let gap = if self.column == 0 {
                0
            } else if at == 0 {
                2
            } else {
                1
            };
            if self.column > 0 && self.column + gap + count(word) > self.width {
                self.end();
            }
            match self.column {
                0 => self.out.extend(std::iter::repeat_n(' ', self.indent)),
                _ => self.out.extend(std::iter::repeat_n(' ', gap)),
            }
            self.column = if self.column == 0 { self.indent } else { self.column + gap } + count(word);
            self.out.push_str(&if at == 0 && name.is_some() { word.to_owned() } else { ink(word) });
        }
    }

    fn end(&mut self) {
        if self.column > 0 {
            self.out.push('\n');
            self.column = 0;
            if !std::mem::replace(&mut self.later, true) {
                self.indent += 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Paper {
        Paper { width, colour: false, screen: true }
    }

    #[test]
    fn words_left_numbers_right_no_trailing_blanks() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(vec!["stage".into(), "RAM".into(), String::new()]);
        table.row(vec!["é".into(), "1.00 GiB".into(), "peak".into()]);
        assert_eq!(table.render(" "), " stage       RAM\n é      1.00 GiB  peak\n");
    }

    #[test]
    fn a_narrow_screen_gets_a_paragraph_a_row() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]).headed();
        table.row(vec!["stage".into(), "line".into(), "RAM".into(), String::new()]);
        table.row(vec!["train lora · step".into(), "11".into(), "1.00 GiB".into(), "◀ RAM peak".into()]);
        table.row(vec!["           · evaluate".into(), String::new(), "–".into(), String::new()]);
        let plain = |_: usize, _: usize, cell: &str| cell.to_owned();
        assert_eq!(table.painted("  ", screen(60), &plain), table.render("  "));
        assert_eq!(
            table.painted("  ", screen(30), &plain),
            "  train lora · step\n    line 11  RAM 1.00 GiB\n    ◀ RAM peak\n    · evaluate\n"
        );
    }

    #[test]
    fn what_is_only_drawn_goes_first() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Left]).drawn(2);
        table.row(vec!["weights".into(), "1 GiB".into(), "██████".into(), String::new()]);
        table.row(vec!["logits".into(), "1 MiB".into(), "█".into(), "grows with batch, max_len".into()]);
        let plain = |_: usize, _: usize, cell: &str| cell.to_owned();
        assert_eq!(
            table.painted("", screen(44), &plain),
            "weights  1 GiB\nlogits   1 MiB  grows with batch, max_len\n"
        );
        assert_eq!(
            table.painted("", screen(20), &plain),
            "weights  1 GiB\nlogits  1 MiB\n  grows with batch,\n  max_len\n"
        );
    }

    #[test]
    fn a_cell_is_one_line_that_no_terminal_obeys() {
        let mut table = Table::new(&[Align::Left]);
        table.row(vec!["a\u{1b}[2J\nb".into()]);
        assert_eq!(table.render(""), "a␛[2J␤b\n");
    }
}
