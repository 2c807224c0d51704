//! Diagnostics for people, in miette's graphical form.

use std::borrow::Cow;
use std::fmt;

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents,
};

use super::excerpt::{Excerpt, visible, words};
use super::{Diagnostic, Label, Severity, Source, Sources};

/// Columns of a rendered report, where nothing says otherwise.
pub const WIDTH: usize = 100;

/// Places of one diagnostic that are drawn: more stand above one another until nobody can read them.
const DRAWN: usize = 8;

/// Every diagnostic with its code, its place in the file, labels, notes and help; `colour` adds terminal colours.
pub fn render(sources: &Sources, diagnostics: &[Diagnostic], colour: bool) -> String {
    render_in(sources, diagnostics, colour, WIDTH)
}

/// The same with sentences of at most `width` columns. Lines of the file stay as they are.
pub fn render_in(sources: &Sources, diagnostics: &[Diagnostic], colour: bool, width: usize) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(width)
        .with_links(false)
        .with_break_words(false)
        .without_cause_chain()
        .without_syntax_highlighting();
    let mut out = String::new();
    for diagnostic in diagnostics {
        let report = Report::new(sources, diagnostic);
        if handler.render_report(&mut out, &report).is_err() {
            out.push_str(&words(&diagnostic.message));
            out.push('\n');
        }
        if report.more > 0 {
            footer(&mut out, "note", &format!("and {} more such places", report.more), colour, width);
        }
        for note in &diagnostic.notes {
            footer(&mut out, "note", note, colour, width);
        }
        for (place, text) in &report.elsewhere {
            footer(&mut out, "note", &format!("{place}: {text}"), colour, width);
        }
        if let Some(help) = &diagnostic.help {
            footer(&mut out, "help", help, colour, width);
        }
        out.push('\n');
    }
    out
}

/// Words under a report, wrapped between words; line breaks of the text itself stay.
fn footer(out: &mut String, head: &str, text: &str, colour: bool, columns: usize) {
    let text = &*words(text);
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
        if indent + line.chars().count() <= columns {
            out.push_str(line.trim());
            continue;
        }
        let mut column = indent + lead;
        for (at, word) in line.split_whitespace().enumerate() {
            let width = word.chars().count();
            if at > 0 && column + 1 + width > columns {
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
    /// Labels that are not drawn.
    more: usize,
    elsewhere: Vec<(String, &'a str)>,
}

impl<'a> Report<'a> {
    fn new(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Self {
        let home = diagnostic.labels.first().map(|label| label.span.source);
        let shown = home.map(|id| sources.get(id)).filter(|source| !source.text.is_empty());
        let (mut near, far): (Vec<&Label>, Vec<&Label>) =
            diagnostic.labels.iter().partition(|label| shown.is_some() && Some(label.span.source) == home);
        let more = near.len().saturating_sub(DRAWN);
        near.truncate(DRAWN);
        let mut places: Vec<(usize, usize)> =
            shown.map_or(Vec::new(), |source| near.iter().map(|label| visible(source, label.span)).collect());
        let code = shown.map(|source| match Excerpt::of(source, &places) {
            None => Text { source: Cow::Borrowed(source), columns: Vec::new() },
            Some(excerpt) => {
                let columns = places.iter().map(|(start, _)| source.place(*start).1.saturating_sub(1));
                let columns = excerpt.places.iter().map(|(start, _)| *start).zip(columns).collect();
                places = excerpt.places;
                Text { source: Cow::Owned(source.with_text(excerpt.text)), columns }
            }
        });
        let labelled = near.iter().zip(&places).enumerate().map(|(at, (label, (offset, length)))| {
            let text = (!label.text.is_empty()).then(|| words(&label.text).into_owned());
            let span = SourceSpan::new((*offset).into(), *length);
            if at == 0 {
                LabeledSpan::new_primary_with_span(text, span)
            } else {
                LabeledSpan::new_with_span(text, span)
            }
        });
        let labels = labelled.collect();
        let elsewhere = far
            .into_iter()
            .map(|label| {
                let (line, column) = sources.line_column(label.span);
                (format!("{}:{line}:{column}", sources.get(label.span.source).name), &*label.text)
            })
            .collect();
        Report { diagnostic, code, labels, more, elsewhere }
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.diagnostic.message))
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.diagnostic.message))
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
struct Text<'a> {
    source: Cow<'a, Source>,
    /// Of an excerpt, which does not tell: the columns, from 0, of what is pointed at, by its offset.
    columns: Vec<(usize, usize)>,
}

impl SourceCode for Text<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let source = &*self.source;
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
            let known = self.columns.iter().find(|(at, _)| *at == start).map(|(_, column)| *column);
            let counted = || source.text.get(first_start..start).map_or(0, |before| before.chars().count());
            (bytes, first_line, known.unwrap_or_else(counted))
        } else {
            (source.lines(first_shown, last_line.saturating_add(context_lines_after)), first_shown, 0)
        };
        let data = source.text.as_bytes().get(bytes.clone()).ok_or(MietteError::OutOfBounds)?;
        Ok(Box::new(MietteSpanContents::new_named(
            words(&source.name).into_owned(),
            data,
            (bytes.start, bytes.len()).into(),
            line,
            column,
            last_line - first_line + 1,
        )))
    }
}
