//! `tunepipe fmt`: lays files out.

use std::path::PathBuf;

use serde_json::json;

use super::Exit;
use super::files::{Named, read_all};
use super::prepare::{answer_json, complain, complaints, show};
use crate::syntax;
use crate::text::{self, Diagnostic, Sources, out};

/// What is done with what is not laid out yet.
pub struct Mode {
    /// Only say which files would change.
    pub check: bool,
    /// Only show what would change.
    pub diff: bool,
    pub json: bool,
    pub quiet: bool,
}

pub fn fmt(paths: &[PathBuf], mode: &Mode) -> Exit {
    let (files, faults) = match read_all(paths) {
        Ok(read) => read,
        Err(fault) => {
            complain(&fault);
            return Exit::Usage;
        }
    };
    // The others are laid out all the same.
    faults.iter().for_each(complain);
    let mut sources = Sources::default();
    let (mut changed, mut unread, mut failed) = (Vec::new(), Vec::new(), false);
    let mut text_of_stdin = None;
    for file in &files {
        let id = sources.add(file.name.clone(), &file.folder, file.text.clone());
        match syntax::format(&sources, id) {
            Err(diagnostics) => unread.extend(diagnostics.into_iter().filter(Diagnostic::is_error)),
            Ok(formatted) => {
                let differs = formatted != file.text;
                failed |= !done(file, &formatted, differs, mode);
                changed.extend(differs.then(|| file.name.clone()));
                // What came in without a file goes out in the answer.
                if file.path.is_none() {
                    text_of_stdin = Some(formatted);
                }
            }
        }
    }
    if mode.json {
        let mut diagnostics = complaints();
        diagnostics.extend(text::to_json(&sources, &unread).as_array().cloned().unwrap_or_default());
        let mut answer = json!({"version": 1, "files": files.len(), "changed": changed, "diagnostics": diagnostics});
        if let Some(text) = text_of_stdin {
            answer["text"] = text.into();
        }
        answer_json(&answer);
    } else {
        show(&sources, &unread);
    }
    if !faults.is_empty() {
        Exit::Usage
    } else if failed {
        Exit::Failed
    } else if !unread.is_empty() || (mode.check && !changed.is_empty()) {
        Exit::Wrong
    } else {
        Exit::Done
    }
}

/// Does with one file what is asked; false where it could not be written.
fn done(file: &Named, formatted: &str, differs: bool, mode: &Mode) -> bool {
    let said = !mode.json && !mode.quiet;
    if mode.diff {
        if differs && !mode.json {
            out::data(&difference(&file.name, &file.text, formatted));
        }
        return true;
    }
    if mode.check {
        if differs && said {
            out::answer(&format!("{}\n", file.name));
        }
        return true;
    }
    // From standard input to standard output, changed or not.
    let Some(path) = &file.path else {
        if !mode.json {
            out::data(formatted);
        }
        return true;
    };
    if !differs {
        return true;
    }
    if let Err(fault) = crate::store::write(path, true, |out| out.put(formatted.as_bytes())) {
        complain(&fault);
        return false;
    }
    if said {
        out::answer(&format!("{}\n", file.name));
    }
    true
}

/// A patch from one text to another.
pub fn difference(name: &str, old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(2).header(name, name).to_string()
}
