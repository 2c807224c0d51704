//! What goes wrong below the language, before anyone knows which line of a pipeline to blame.

use std::fmt;
use std::path::{Path, PathBuf};

/// A failure with everything a person needs but the span: rooms below `check` return it, and the stage
/// that was at work turns it into a [`Diagnostic`](super::Diagnostic) at the argument that named the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Stable, dotted, lower case: `file.missing`, `safetensors.truncated`, `data.bad_row`.
    pub code: &'static str,
    /// One sentence: what is wrong.
    pub message: String,
    /// Where in an input file, when it is known; lines and columns count from 1.
    pub spot: Option<Box<Spot>>,
    /// Why, what was expected, what was found.
    pub notes: Vec<String>,
    /// What to type or do instead.
    pub help: Option<String>,
}

/// A place in an input file that is not a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    pub path: PathBuf,
    pub line: Option<u64>,
    pub column: Option<u64>,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Fault { code, message: message.into(), spot: None, notes: Vec::new(), help: None }
    }

    pub fn at(mut self, path: &Path) -> Self {
        self.spot = Some(Box::new(Spot { path: path.to_owned(), line: None, column: None }));
        self
    }

    pub fn at_line(mut self, path: &Path, line: u64, column: Option<u64>) -> Self {
        self.spot = Some(Box::new(Spot { path: path.to_owned(), line: Some(line), column }));
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

    /// An operating system's error while doing `what` (an infinitive, `read`, `write`) to `path`.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => "file.missing",
            std::io::ErrorKind::PermissionDenied => "file.denied",
            std::io::ErrorKind::StorageFull => "disk.full",
            _ => "file.io",
        };
        Fault::new(code, format!("cannot {what} `{}`: {}", path.display(), plain(error))).at(path)
    }
}

/// The operating system's words without Rust's `(os error 2)`.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let cut = text.find(" (os error").unwrap_or(text.len());
    let mut words = text[..cut].to_owned();
    if let Some(first) = words.get(..1) {
        let lower = first.to_lowercase();
        words.replace_range(..1, &lower);
    }
    words
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(Spot { path, line: Some(line), column }) = self.spot.as_deref() {
            write!(f, " ({}:{line}", path.display())?;
            if let Some(column) = column {
                write!(f, ":{column}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// What every room below `check` returns.
pub type Result<T, E = Fault> = std::result::Result<T, E>;
