//! Diagnostics as GitHub's workflow commands: a forge shows them at the lines of a pull request.

use super::{Diagnostic, Severity, Sources};

/// `::error file=…,line=…,col=…,title=…::message`, a line each.
pub fn to_github(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| one(sources, diagnostic)).collect()
}

fn one(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let kind = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let mut place = String::new();
    if let Some(label) = diagnostic.labels.first() {
        let (line, column) = sources.line_column(label.span);
        let (end_line, end_column) = sources.end_line_column(label.span);
        let name = property(&sources.get(label.span.source).name);
        place = format!("file={name},line={line},col={column},endLine={end_line},");
        // Columns of another line would not be this line's.
        if end_line == line {
            place.push_str(&format!("endColumn={end_column},"));
        }
    }
    let mut words = vec![diagnostic.message.clone()];
    words.extend(diagnostic.labels.iter().skip(1).map(|label| {
        let (line, _) = sources.line_column(label.span);
        format!("{}:{line}: {}", sources.get(label.span.source).name, label.text)
    }));
    words.extend(diagnostic.notes.iter().cloned());
    words.extend(diagnostic.help.iter().map(|help| format!("help: {help}")));
    format!("::{kind} {place}title={}::{}\n", property(diagnostic.code), data(&words.join("\n")))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::text::Span;

    #[test]
    fn a_line_says_where_and_what_to_write() {
        let mut sources = Sources::default();
        let id = sources.add("a,b.tp", Path::new(""), "one\nlr=3 %\n");
        let found = Diagnostic::error("type.unit", "no unit: 3 %").label(Span::new(id, 4, 8), "here");
        let found = found.label(Span::new(id, 0, 3), "why").help("write\n`3%`");
        assert_eq!(
            to_github(&sources, &[found]),
            "::error file=a%2Cb.tp,line=2,col=1,endLine=2,endColumn=5,title=type.unit::no unit: 3 %25%0A\
             a,b.tp:1: why%0Ahelp: write%0A`3%25`\n"
        );
        let bare = Diagnostic::warning("x.y", "m");
        assert_eq!(to_github(&sources, &[bare]), "::warning title=x.y::m\n");
    }
}
