//! Source texts, spans, and what is said about them. The one room that knows miette.

mod diagnostic;
mod excerpt;
mod fault;
mod github;
mod harmless;
mod json;
mod nearest;
pub mod out;
mod path;
mod render;
mod source;
#[cfg(test)]
mod tests;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use fault::{Fault, Result, Spot};
pub use github::to_github;
pub use harmless::{escaped, shown};
pub use json::{fault_to_json, to_json};
pub use nearest::nearest;
pub use path::{joined, shown_path};
pub use render::{WIDTH, render, render_in};
pub use source::{Source, SourceId, Sources, Span};
