//! The one way a file is laid out. Lines stay lines and comments stay comments: indentation, spaces between words and
//! the columns of trailing comments are all that changes.

use super::lines::{Line, Statement};

/// Spaces a level.
const STEP: usize = 2;

/// Code wider than this does not push the trailing comments of its neighbours to the right.
const WIDE: usize = 60;

/// A line on its way to its new form.
#[derive(Default)]
struct Out {
    indent: usize,
    code: String,
    /// A comment behind code, or alone on its line.
    comment: String,
}

/// Lays out a text whose statements were split without an error.
pub(super) fn format(text: &str, statements: &[Statement]) -> String {
    let places = places(text, statements);
    let body = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let base = text.len() - body.len();
    let mut out: Vec<Out> = Vec::new();
    let mut at = base;
    let mut next_place = places.iter().peekable();
    for raw in body.split_inclusive('\n') {
        let (start, line) = (at, raw.trim_end());
        at += raw.len();
        let code_start = start + (line.len() - line.trim_start().len());
        if let Some(place) = next_place.next_if(|place| place.start == code_start) {
            let code = text.get(place.start..place.end).unwrap_or("");
            let comment = text.get(place.end..start + line.len()).unwrap_or("").trim();
            out.push(Out { indent: place.indent, code: spaced(code, place.wide), comment: comment.to_owned() });
            continue;
        }
        let comment = line.trim();
        let indented = !line.starts_with('#');
        // A comment stands with the line it belongs to: the next one of its statement, or else the one before.
        let indent = match next_place.peek() {
            _ if !indented => 0,
            Some(next) if !next.first => next.indent,
            _ => out.iter().rev().find(|out| !out.code.is_empty()).map_or(0, |out| out.indent.max(STEP)),
        };
        let indent = if comment.is_empty() { 0 } else { indent };
        out.push(Out { indent, code: String::new(), comment: comment.to_owned() });
    }
    while out.last().is_some_and(|line| line.code.is_empty() && line.comment.is_empty()) {
        out.pop();
    }
    written(&out, if text.contains("\r\n") { "\r\n" } else { "\n" })
}

/// Lines to text; trailing comments of neighbouring lines stand in one column.
fn written(lines: &[Out], end: &str) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < lines.len() {
        let block = lines[at..].iter().take_while(|line| !line.code.is_empty()).count().max(1);
        let lines = &lines[at..at + block];
        let width = |line: &Out| line.indent + line.code.chars().count();
        let narrow = lines.iter().filter(|line| !line.comment.is_empty() && !line.code.is_empty()).map(width);
        let column = narrow.filter(|width| *width <= WIDE).max().unwrap_or(0) + STEP;
        for line in lines {
            text.extend(std::iter::repeat_n(' ', line.indent));
            text.push_str(&line.code);
            if !line.code.is_empty() && !line.comment.is_empty() {
                text.extend(std::iter::repeat_n(' ', column.saturating_sub(width(line)).max(STEP)));
            }
            text.push_str(&line.comment);
            text.push_str(end);
        }
        at += block;
    }
    text
}

/// Where a line of code stands.
struct Place {
    start: usize,
    end: usize,
    indent: usize,
    /// Begins a statement at the left edge.
    first: bool,
    /// Spaces stand around `=`.
    wide: bool,
}

fn places(text: &str, statements: &[Statement]) -> Vec<Place> {
    let mut places = Vec::new();
    for statement in statements {
        let lines = &statement.lines;
        match first_word(text, lines) {
            "recipe" => {
                let head = lines.iter().skip(1).take_while(|line| line.inside).count() + 1;
                let (head, body) = lines.split_at(head.min(lines.len()));
                put(text, head, 0, true, &mut places);
                blocks(text, body, &mut places);
            }
            "stage" if lines.len() > 1 => {
                let (head, body) = lines.split_at(1);
                put(text, head, 0, true, &mut places);
                members(text, body, &mut places);
            }
            word => put(text, lines, 0, matches!(word, "param" | "let"), &mut places),
        }
        if let Some(first) = places.iter_mut().rev().find(|place| place.start == statement.start) {
            first.first = true;
        }
    }
    places
}

fn first_word<'t>(text: &'t str, lines: &[Line]) -> &'t str {
    let code = lines.first().and_then(|line| text.get(line.start..line.end)).unwrap_or("");
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("")
}

/// A recipe's body: statements at one depth, their continuations deeper, and examples.
fn blocks(text: &str, lines: &[Line], places: &mut Vec<Place>) {
    let depth = lines.first().map_or(0, |line| line.indent);
    let mut rest = lines;
    while let Some((first, more)) = rest.split_first() {
        let count = 1 + more.iter().take_while(|line| line.inside || line.indent > depth).count();
        let (part, after) = rest.split_at(count);
        if text.get(first.start..first.end) == Some("example") {
            example(text, part, places);
        } else {
            put(text, part, STEP, first_word(text, part) == "let", places);
        }
        rest = after;
    }
}

/// A stage's declaration: a member a line, and examples.
fn members(text: &str, lines: &[Line], places: &mut Vec<Place>) {
    let depth = lines.first().map_or(0, |line| line.indent);
    let mut rest = lines;
    while let Some((first, more)) = rest.split_first() {
        let is_example = text.get(first.start..first.end) == Some("example");
        let count = 1 + if is_example { more.iter().take_while(|line| line.indent > depth).count() } else { 0 };
        let (part, after) = rest.split_at(count);
        if is_example {
            example(text, part, places);
        } else {
            put(text, part, STEP, true, places);
        }
        rest = after;
    }
}

/// `example` and the pipeline below it, two levels deep.
fn example(text: &str, lines: &[Line], places: &mut Vec<Place>) {
    let Some((head, body)) = lines.split_first() else { return };
    put(text, std::slice::from_ref(head), STEP, false, places);
    let least = body.iter().map(|line| line.indent).min().unwrap_or(0);
    let mut rest = body;
    while let Some((_, more)) = rest.split_first() {
        let count = 1 + more.iter().take_while(|line| line.inside || line.indent > least).count();
        let (part, after) = rest.split_at(count);
        put(text, part, 2 * STEP, matches!(first_word(text, part), "let" | "param"), places);
        rest = after;
    }
}

/// The lines of one statement: the first at `indent`, the others a level deeper, those in brackets by their bracket.
fn put(text: &str, lines: &[Line], indent: usize, wide: bool, places: &mut Vec<Place>) {
    // Indentation of the line that opened each bracket.
    let mut open: Vec<usize> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let code = text.get(line.start..line.end).unwrap_or("");
        let own = match open.last() {
            Some(opener) if code.starts_with([']', ')']) => *opener,
            Some(opener) => opener + STEP,
            None if number == 0 => indent,
            None => indent + STEP,
        };
        let mut pieces = Pieces(code);
        while let Some(piece) = pieces.next() {
            match piece.text {
                "[" | "(" => open.push(own),
                "]" | ")" => drop(open.pop()),
                _ => {}
            }
        }
        places.push(Place { start: line.start, end: line.end, indent: own, first: false, wide });
    }
}

/// A line of code with the spaces it should have.
fn spaced(code: &str, wide: bool) -> String {
    let mut out = String::with_capacity(code.len());
    let mut before: Option<&str> = None;
    let mut pieces = Pieces(code);
    let mut recipe = false;
    let mut count = 0;
    while let Some(piece) = pieces.next() {
        recipe |= count == 0 && piece.text == "recipe";
        let space = match (before, piece.text) {
            (None, _) => false,
            (Some("[" | "(" | "<" | "|" | "@"), _) | (_, "]" | ")" | "," | ":" | "<" | ">" | "|") => false,
            (Some("="), _) | (_, "=") => wide,
            (Some("," | ":"), _) => true,
            // The brackets of a recipe's parameters close up to its name.
            (_, "(") if recipe && count == 2 => false,
            (_, _) => piece.apart,
        };
        if space {
            out.push(' ');
        }
        out.push_str(piece.text);
        before = Some(piece.text);
        count += 1;
    }
    out
}

struct Piece<'t> {
    text: &'t str,
    /// Blanks stand before it.
    apart: bool,
}

/// Cuts code into quoted texts, single characters of punctuation, and what stands between.
struct Pieces<'t>(&'t str);

impl<'t> Pieces<'t> {
    fn next(&mut self) -> Option<Piece<'t>> {
        let code = self.0.trim_start();
        let apart = code.len() < self.0.len();
        let first = code.chars().next()?;
        let length = match first {
            '"' => quoted(code),
            '[' | ']' | '(' | ')' | ',' | '=' | ':' | '<' | '>' | '|' | '@' => 1,
            _ => code
                .find(|c: char| c.is_whitespace() || "[](),=:<>|@\"".contains(c))
                .unwrap_or(code.len())
                .max(first.len_utf8()),
        };
        let (text, rest) = code.split_at_checked(length)?;
        self.0 = rest;
        Some(Piece { text, apart })
    }
}

/// Bytes of a quoted text, its quotes included.
fn quoted(code: &str) -> usize {
    let mut chars = code.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    code.len()
}
