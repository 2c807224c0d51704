//! Splits a text into statements: a statement starts in column 0, deeper lines continue it, blank lines and comments are
//! neutral, line breaks in brackets are free.

use crate::text::{Diagnostic, SourceId, Span};

/// Brackets in brackets that are read; more is a mistake, and reading them would cost stack.
const DEEPEST: usize = 32;

/// The lines of one statement.
pub(super) struct Statement {
    pub start: usize,
    /// Behind the last character that is no comment.
    pub end: usize,
    /// The `##` lines right above.
    pub doc: Option<String>,
    pub lines: Vec<Line>,
    /// A bracket or quote is open, and that is reported: reading on would only repeat it.
    pub broken: bool,
}

/// A line with code on it.
#[derive(Clone)]
pub(super) struct Line {
    pub start: usize,
    /// Behind the last character of code.
    pub end: usize,
    pub indent: usize,
    /// It begins inside a bracket of the line above, and so begins nothing.
    pub inside: bool,
    /// What a trailing `##` says.
    pub doc: Option<String>,
}

pub(super) fn split(text: &str, source: SourceId, diagnostics: &mut Vec<Diagnostic>) -> Vec<Statement> {
    let mut splitter = Splitter {
        text,
        source,
        diagnostics,
        done: Vec::new(),
        now: None,
        open: Vec::new(),
        free_until: 0,
        tabs: None,
    };
    let mut doc: Vec<&str> = Vec::new();
    let mut at = 0;
    for raw in text.split_inclusive('\n') {
        let (start, mut line) = (at, raw.trim_end_matches(['\n', '\r']));
        at += raw.len();
        let mut start = start;
        if start == 0 && line.starts_with('\u{FEFF}') {
            start = '\u{FEFF}'.len_utf8();
            line = &line[start..];
        }
        let code = line.trim_start_matches([' ', '\t', '\r']);
        let indent = line.len() - code.len();
        if code.is_empty() {
            doc.clear();
        } else if code.starts_with('#') {
            match line.strip_prefix("##") {
                Some(words) => doc.push(words.strip_prefix(' ').unwrap_or(words).trim_end()),
                None => {
                    if indent == 0 {
                        doc.clear();
                    }
                }
            }
        } else {
            splitter.line(start, line, indent, &mut doc);
        }
    }
    splitter.finish();
    if let Some((span, count)) = splitter.tabs {
        let mut diagnostic = Diagnostic::error("syntax.tab", "a tab in the indentation")
            .label(span, "this is a tab")
            .help("indent with spaces, two as a rule");
        if count > 1 {
            diagnostic = diagnostic.note(format!("{count} lines are indented with tabs"));
        }
        splitter.diagnostics.push(diagnostic);
    }
    splitter.done
}

struct Splitter<'a> {
    text: &'a str,
    source: SourceId,
    diagnostics: &'a mut Vec<Diagnostic>,
    done: Vec<Statement>,
    now: Option<Statement>,
    /// Open brackets of the current statement with their offsets.
    open: Vec<(char, usize)>,
    /// Lines before this offset are known to lie in a bracket that does get closed.
    free_until: usize,
    /// The first tab of an indentation, and how many lines have one.
    tabs: Option<(Span, usize)>,
}

impl Splitter<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.source, start, end)
    }

    fn line(&mut self, start: usize, line: &str, indent: usize, doc: &mut Vec<&str>) {
        if let Some(tab) = line.get(..indent).and_then(|lead| lead.find('\t')) {
            let span = self.span(start + tab, start + tab + 1);
            self.tabs.get_or_insert((span, 0)).1 += 1;
        }
        if indent == 0 && !self.in_bracket(start, line) {
            self.finish();
        }
        if self.now.is_none() {
            if indent > 0 {
                self.diagnostics.push(
                    Diagnostic::error("syntax.indent", "this line continues nothing")
                        .label(self.span(start + indent, start + line.len()), "is indented, with no statement above")
                        .help("a statement starts at the left edge; deeper lines continue the statement above"),
                );
            }
            let doc = (!doc.is_empty()).then(|| doc.join("\n"));
            self.now = Some(Statement { start: start + indent, end: start, doc, lines: Vec::new(), broken: false });
        }
        doc.clear();
        self.scan(start, line, indent);
    }

    /// Whether a line at the left edge still belongs to an open bracket: it closes it, or it is one item of a list
    /// that is closed below. Any other line there is the next statement, and the bracket was forgotten.
    fn in_bracket(&mut self, start: usize, line: &str) -> bool {
        if self.open.is_empty() {
            return false;
        }
        // A statement starts with a word.
        if start < self.free_until || !line.starts_with(char::is_alphabetic) {
            return true;
        }
        let mut at = start;
        for raw in self.text.get(start..).unwrap_or("").split_inclusive('\n') {
            let line = raw.split('#').next().unwrap_or("").trim_end();
            at += raw.len();
            if line.starts_with([']', ')']) || (line.ends_with([']', ')']) && !line.contains([' ', '[', '('])) {
                self.free_until = at;
                return true;
            }
            let item = line.trim_end_matches(',');
            let deeper = line.is_empty() || line.starts_with([' ', '\t']);
            let quoted = item.starts_with('"');
            if !deeper && !quoted && item.contains([' ', '\t', '=', '[', '(']) {
                return false;
            }
        }
        false
    }

    /// Finds where code ends, and follows brackets and quotes.
    fn scan(&mut self, start: usize, line: &str, indent: usize) {
        let inside = !self.open.is_empty();
        let mut end = line.len();
        let mut doc = None;
        let mut chars = line.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '#' => {
                    end = at;
                    doc = line.get(at..).and_then(|rest| rest.strip_prefix("##")).map(|words| words.trim().to_owned());
                    break;
                }
                '"' => {
                    let mut closed = false;
                    while let Some((_, c)) = chars.next() {
                        match c {
                            '\\' => drop(chars.next()),
                            '"' => {
                                closed = true;
                                break;
                            }
                            _ => {}
                        }
                    }
                    if !closed {
                        self.unclosed_quote(start + at, start + line.trim_end().len());
                    }
                }
                '[' | '(' => self.push(c, start + at),
                ']' | ')' => self.pop(c, start + at),
                _ => {}
            }
        }
        let end = start + line.get(..end).map_or(0, |code| code.trim_end().len());
        if let Some(now) = &mut self.now {
            now.end = end;
            now.lines.push(Line { start: start + indent, end, indent, inside, doc });
        }
    }

    fn breaks(&mut self, diagnostic: Diagnostic) {
        if let Some(now) = self.now.as_mut().filter(|now| !now.broken) {
            now.broken = true;
            self.diagnostics.push(diagnostic);
        }
    }

    fn unclosed_quote(&mut self, start: usize, end: usize) {
        let span = self.span(start, end);
        let text = self.text.get(start..end).unwrap_or("");
        // A backslash at the end would take the closing quote away.
        let first = text.split_whitespace().next().unwrap_or("\"").trim_end_matches('\\');
        let closed = match first.rfind("${").filter(|at| !first[*at..].contains('}')) {
            Some(at) => {
                let (before, hole) = first.split_at(at);
                open_hole(before, hole, "\"")
            }
            None => format!("write `{first}\"`"),
        };
        self.breaks(
            Diagnostic::error("syntax.quote", "a quote is opened and not closed on its line")
                .label(span, "opened here")
                .help(format!("{closed}; a long text can stand in a file: `@\"prompt.txt\"`")),
        );
    }

    fn push(&mut self, bracket: char, at: usize) {
        self.open.push((bracket, at));
        if self.open.len() > DEEPEST {
            let span = self.span(at, at + 1);
            self.breaks(
                Diagnostic::error("syntax.deep", format!("brackets stand more than {DEEPEST} deep"))
                    .label(span, "one too many")
                    .help("take parts out with `let name = …`"),
            );
        }
    }

    fn pop(&mut self, bracket: char, at: usize) {
        let span = self.span(at, at + 1);
        match self.open.pop() {
            Some((opened, _)) if closer(opened) == bracket => {}
            Some((opened, from)) => {
                let from = self.span(from, from + 1);
                self.breaks(
                    Diagnostic::error("syntax.bracket", format!("`{opened}` is closed by `{bracket}`"))
                        .label(span, format!("expected `{}`", closer(opened)))
                        .label(from, "opened here"),
                );
            }
            None => self.breaks(
                Diagnostic::error("syntax.bracket", format!("`{bracket}` closes nothing"))
                    .label(span, "no bracket is open here")
                    .help("remove it, or open one before it"),
            ),
        }
    }

    fn finish(&mut self) {
        if let (Some((opened, at)), Some(now)) = (self.open.first().copied(), &self.now) {
            let end = now.end;
            let (span, end) = (self.span(at, at + 1), self.span(end, end));
            self.breaks(
                Diagnostic::error("syntax.bracket", format!("`{opened}` is opened and never closed"))
                    .label(span, "opened here")
                    .label(end, format!("expected `{}` up to here", closer(opened))),
            );
        }
        self.open.clear();
        self.done.extend(self.now.take());
    }
}

/// What to write for `${` without its `}`: `before` stands before it in the text, `after` closes the text.
pub(super) fn open_hole(before: &str, hole: &str, after: &str) -> String {
    let name = hole.trim_start_matches("${").trim();
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let name = if name.starts_with(char::is_alphabetic) && name.chars().all(plain) { name } else { "name" };
    format!(
        "write `{before}${{{name}}}{after}` for the value of `{name}`, `{before}\\{hole}{after}` for the characters themselves"
    )
}

fn closer(bracket: char) -> char {
    if bracket == '[' { ']' } else { ')' }
}
