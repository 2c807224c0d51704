//! The language as a user meets it: text in, diagnostics out.

mod codes;
pub mod examples;
mod format;
mod fuzz;
mod mutants;
mod snapshots;
mod suite;

use std::path::Path;

use tunepipe::catalog::Catalog;
use tunepipe::check::check_text;
use tunepipe::plan::Plan;
use tunepipe::text::{Diagnostic, Sources};

/// Checks a text whose paths are relative to `tests/suite`.
pub fn check(name: &str, text: &str, params: &[(String, String)]) -> (Sources, Option<Plan>, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    let id = sources.add(name, Path::new("tests/suite"), text);
    let (plan, diagnostics) = check_text(id, &mut sources, Catalog::standard(), params);
    (sources, plan, diagnostics)
}
