//! Source texts, spans, and what is said about them. The one room that knows miette.

mod diagnostic;
mod fault;
mod source;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use fault::{Fault, Result, Spot};
pub use source::{Source, SourceId, Sources, Span};
