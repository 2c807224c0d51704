//! What stands at the other end of stdout.

use std::io::IsTerminal;

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
    let width = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col)).filter(|n| *n > 0);
    Paper { width: width.unwrap_or(Paper::plain().width).clamp(NARROWEST, WIDEST), colour }
}
