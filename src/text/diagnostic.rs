//! What is wrong with a pipeline, where, why, and what to type instead.

use super::{Fault, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    Error,
}

/// A span of the pipeline with a few words on its part in the matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One finding. The first label is the offending place, later ones where the cause is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable, dotted, lower case: `name.unknown_stage`, `budget.over`.
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    pub labels: Vec<Label>,
    /// Why: facts that do not belong to one span.
    pub notes: Vec<String>,
    /// What to type instead; can be pasted.
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic { code, severity, message: message.into(), labels: Vec::new(), notes: Vec::new(), help: None }
    }

    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// A fault met while doing what `span` asked for.
    pub fn from_fault(fault: &Fault, span: Span, words: impl Into<String>) -> Self {
        let mut diagnostic = Diagnostic::error(fault.code, fault.to_string()).label(span, words);
        diagnostic.notes.clone_from(&fault.notes);
        diagnostic.help.clone_from(&fault.help);
        diagnostic
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
