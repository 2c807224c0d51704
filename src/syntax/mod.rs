//! Text to AST. The one room that knows pest (`grammar/tunepipe.pest`).
//!
//! Lines are split into statements first, each statement is parsed for itself, pairs are lowered to `ast`. Parsing
//! never fails: what cannot be read becomes [`Item::Broken`] with a diagnostic, and the rest goes on.

mod ast;
mod comments;
mod decl;
mod format;
mod grammar;
mod habits;
mod lines;
mod lower;
mod number;
mod recipe;
mod statement;
#[cfg(test)]
mod tests;
mod value;

pub use ast::*;

use crate::text::{Diagnostic, SourceId, Sources, Span};

/// Reads a whole file.
pub fn parse(sources: &Sources, source: SourceId) -> (File, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let text = &*comments::blanked(&sources.get(source).text, source, &mut diagnostics);
    let items = lines::split(text, source, &mut diagnostics)
        .iter()
        .map(|statement| statement::lower(text, source, statement, &mut diagnostics))
        .collect();
    (File { source, items }, diagnostics)
}

/// Lays a file out as every file is: the same statements, lines and comments, with regular indentation and spaces.
/// Formatting twice changes nothing more.
///
/// # Errors
/// What keeps the file from being read: nothing is laid out then, since nobody knows what is meant.
pub fn format(sources: &Sources, source: SourceId) -> Result<String, Vec<Diagnostic>> {
    let text = &*sources.get(source).text;
    let mut diagnostics = Vec::new();
    let statements = lines::split(text, source, &mut diagnostics);
    for statement in &statements {
        statement::lower(text, source, statement, &mut diagnostics);
    }
    if diagnostics.iter().any(Diagnostic::is_error) { Err(diagnostics) } else { Ok(format::format(text, &statements)) }
}

/// Reads one value out of a larger text: what stands behind `name=` on a command line.
pub fn parse_value(sources: &Sources, span: Span) -> Result<Expr, Vec<Diagnostic>> {
    let text = &*sources.get(span.source).text;
    let mut diagnostics = Vec::new();
    let statement = lines::split(sources.slice(span), span.source, &mut diagnostics);
    if statement.len() > 1 || statement.iter().any(|statement| statement.broken) || !diagnostics.is_empty() {
        return Err(vec![Diagnostic::error("syntax.expected", "this is no value").label(span, "cannot be read")]);
    }
    let mut lower =
        lower::Lower { text, source: span.source, base: span.start as usize, diagnostics: &mut diagnostics };
    let value = lower.alone(sources.slice(span));
    if diagnostics.is_empty() { value.ok_or_else(Vec::new) } else { Err(diagnostics) }
}
