//! Diagnostics for programs: editors, forges, scripts.

use serde_json::{Value, json};

use super::{Diagnostic, Fault, Severity, Sources, Span};

impl Severity {
    /// How the severity is written for programs and for people: `error`, `warning`, `note`.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A list of objects: `code`, `severity`, `message`, the first label's place (`file`, `line`, `column`, `end_line`,
/// `end_column`; null where nothing is pointed at), all `labels` with their own places, `notes`, `help`.
/// Lines and columns count from 1, columns in characters, ends lie behind the last character.
pub fn to_json(sources: &Sources, diagnostics: &[Diagnostic]) -> Value {
    diagnostics.iter().map(|diagnostic| one(sources, diagnostic)).collect()
}

/// The same object for a fault that no pipeline is to blame for; its place is that of the file it names.
pub fn fault_to_json(fault: &Fault) -> Value {
    let mut diagnostic = Diagnostic::error(fault.code, fault.message.clone());
    diagnostic.notes.clone_from(&fault.notes);
    diagnostic.help.clone_from(&fault.help);
    let mut object = one(&Sources::default(), &diagnostic);
    if let Some(spot) = &fault.spot {
        object["file"] = spot.path.display().to_string().into();
        object["line"] = spot.line.into();
        object["column"] = spot.column.into();
    }
    object
}

fn one(sources: &Sources, diagnostic: &Diagnostic) -> Value {
    let mut object = json!({
        "code": diagnostic.code,
        "severity": diagnostic.severity.word(),
        "message": diagnostic.message,
    });
    let first = diagnostic.labels.first().map(|label| label.span);
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let mut object = json!({});
            put_place(&mut object, sources, Some(label.span));
            object["text"] = label.text.clone().into();
            object
        })
        .collect();
    put_place(&mut object, sources, first);
    object["labels"] = labels.into();
    object["notes"] = diagnostic.notes.clone().into();
    object["help"] = diagnostic.help.clone().into();
    object
}

fn put_place(object: &mut Value, sources: &Sources, span: Option<Span>) {
    let (start, end) = match span {
        Some(span) => (Some(sources.line_column(span)), Some(sources.end_line_column(span))),
        None => (None, None),
    };
    object["file"] = span.map(|span| sources.get(span.source).name.clone()).into();
    object["line"] = start.map(|(line, _)| line).into();
    object["column"] = start.map(|(_, column)| column).into();
    object["end_line"] = end.map(|(line, _)| line).into();
    object["end_column"] = end.map(|(_, column)| column).into();
}
