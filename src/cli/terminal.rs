//! What stands at the other end of stdout and stderr.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use crate::text::WIDTH;
use crate::tools::Paper;

/// Narrower than this nothing can be read.
const NARROWEST: usize = 40;
/// Wider lines are hard to follow.
const WIDEST: usize = 120;

/// Colour on a terminal that is not told otherwise (`NO_COLOR`); the terminal's width, within reason.
pub fn paper() -> Paper {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return Paper::plain();
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Paper { width: columns(&stdout).unwrap_or(Paper::plain().width).clamp(NARROWEST, WIDEST), colour, screen: true }
}

/// Columns for sentences on stderr: as many as elsewhere, but where its terminal has fewer.
pub fn stderr_columns() -> usize {
    let stderr = std::io::stderr();
    let there = if stderr.is_terminal() { columns(&stderr) } else { None };
    there.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH)
}

/// The same for sentences that are not part of a diagnostic, without colour.
pub fn stderr_paper() -> Paper {
    Paper { width: stderr_columns(), colour: false, screen: std::io::stderr().is_terminal() }
}

fn columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
