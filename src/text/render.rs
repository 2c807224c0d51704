//! Diagnostics for people, in miette's graphical form.

use std::fmt;

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents,
};

use super::{Diagnostic, Severity, Source, Sources, Span};

/// Columns of a rendered report.
const WIDTH: usize = 100;

/// Every diagnostic with its code, its place in the file, labels, notes and help; `colour` adds terminal colours.
pub fn render(sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(WIDTH)
        .with_links(false)
        .with_break_words(false)
        .without_cause_chain()
        .without_syntax_highlighting();
    let mut out = String::new();
    for diagnostic in diagnostics {
        let report = Report::new(sources, diagnostic);
        if handler.render_report(&mut out, &report).is_err() {
            out.push_str(&diagnostic.message);
            out.push('\n');
        }
        for note in &diagnostic.notes {
            footer(&mut out, "note", note, colour);
        }
        for (place, text) in &report.elsewhere {
            footer(&mut out, "note", &format!("{place}: {text}"), colour);
        }
        if let Some(help) = &diagnostic.help {
            footer(&mut out, "help", help, colour);
        }
        out.push('\n');
    }
    out
}

/// Words under a report, wrapped between words; line breaks of the text itself stay.
fn footer(out: &mut String, head: &str, text: &str, colour: bool) {
    let indent = head.len() + 4;
    let head = if colour { format!("\u{1b}[36m{head}:\u{1b}[0m") } else { format!("{head}:") };
    out.push_str("  ");
    out.push_str(&head);
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent - 1));
        }
        // Leading spaces are part of a line that can be pasted.
        let lead = line.len() - line.trim_start().len();
        out.push(' ');
        out.extend(std::iter::repeat_n(' ', lead));
        // A line that fits keeps its spacing: it may be a row of a table.
        if indent + line.chars().count() <= WIDTH {
            out.push_str(line.trim());
            continue;
        }
        let mut column = indent + lead;
        for (at, word) in line.split_whitespace().enumerate() {
            let width = word.chars().count();
            if at > 0 && column + 1 + width > WIDTH {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent + lead));
                column = indent + lead;
            } else if at > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += width;
        }
    }
    out.push('\n');
}

/// A diagnostic as miette asks for it. Labels in other texts than the first label's stand under the report.
struct Report<'a> {
    diagnostic: &'a Diagnostic,
    code: Option<Text<'a>>,
    labels: Vec<LabeledSpan>,
    elsewhere: Vec<(String, &'a str)>,
}

impl<'a> Report<'a> {
    fn new(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Self {
        let home = diagnostic.labels.first().map(|label| label.span.source);
        let code = home.map(|id| Text(sources.get(id))).filter(|text| !text.0.text.is_empty());
        let (mut labels, mut elsewhere) = (Vec::new(), Vec::new());
        for (at, label) in diagnostic.labels.iter().enumerate() {
            if let Some(text) = code.as_ref().filter(|_| Some(label.span.source) == home) {
                let (offset, length) = text.visible(label.span);
                let words = (!label.text.is_empty()).then(|| label.text.clone());
                let span = SourceSpan::new(offset.into(), length);
                labels.push(if at == 0 {
                    LabeledSpan::new_primary_with_span(words, span)
                } else {
                    LabeledSpan::new_with_span(words, span)
                });
            } else {
                let (line, column) = sources.line_column(label.span);
                elsewhere.push((format!("{}:{line}:{column}", sources.get(label.span.source).name), &*label.text));
            }
        }
        Report { diagnostic, code, labels, elsewhere }
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Report<'_> {}

impl miette::Diagnostic for Report<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.diagnostic.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Note => miette::Severity::Advice,
            Severity::Warning => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.code.as_ref().map(|text| text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        (!self.labels.is_empty())
            .then(|| Box::new(self.labels.iter().cloned()) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

/// A source that finds lines by its index: miette's own reader walks the text from its start for each label.
struct Text<'a>(&'a Source);

impl Text<'_> {
    /// A span's offset and length, cut to characters that can be pointed at.
    fn visible(&self, span: Span) -> (usize, usize) {
        let text = &*self.0.text;
        let floor = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let mut start = floor(span.start as usize);
        let end = floor(span.end as usize).max(start);
        // The end of a file has no line to show: point behind the last character instead, or at it where it is wide.
        if start == text.len() {
            start = text.trim_end().len();
            if let Some(last) = text.get(..start).and_then(|text| text.chars().last()).filter(|last| !last.is_ascii()) {
                return (start - last.len_utf8(), last.len_utf8());
            }
        }
        (start, end.saturating_sub(start))
    }
}

impl SourceCode for Text<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let source = self.0;
        let (start, end) = (span.offset(), span.offset().saturating_add(span.len()));
        if end > source.text.len() {
            return Err(MietteError::OutOfBounds);
        }
        let (first_line, first_start) = source.line_of(start);
        let (last_line, _) = source.line_of(end.saturating_sub(1).max(start));
        let first_shown = first_line.saturating_sub(context_lines_before);
        // Without context miette wants the text from the span on, and its column.
        let (bytes, line, column) = if context_lines_before == 0 {
            let bytes = start..source.lines(last_line, last_line.saturating_add(context_lines_after)).end;
            (bytes, first_line, source.text.get(first_start..start).map_or(0, |before| before.chars().count()))
        } else {
            (source.lines(first_shown, last_line.saturating_add(context_lines_after)), first_shown, 0)
        };
        let data = source.text.as_bytes().get(bytes.clone()).ok_or(MietteError::OutOfBounds)?;
        Ok(Box::new(MietteSpanContents::new_named(
            source.name.clone(),
            data,
            (bytes.start, bytes.len()).into(),
            line,
            column,
            last_line - first_line + 1,
        )))
    }
}
