//! The two streams that a person or a script reads. A reader that went away ends no run. A person's terminal is given
//! nothing that it would obey, whatever a file, its name or a model has in it; a script gets the bytes as they are.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::harmless::{coloured, shown};

static LOST: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// A result for a person, on stdout: what a terminal would obey is shown as a picture, but for colours on a terminal.
/// What cannot be written is remembered by [`lost`]; a reader that has seen enough (`| head`) is no loss.
pub fn answer(text: &str) {
    put(&if io::stdout().is_terminal() { coloured(text) } else { shown(text) });
}

/// A result that programs read too (JSON, a pipeline's text, a patch, a script), on stdout, to the byte but at a
/// terminal.
pub fn data(text: &str) {
    match io::stdout().is_terminal() {
        true => put(&shown(text)),
        false => put(text),
    }
}

fn put(text: &str) {
    ANSWERED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => LOST.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Diagnostics and questions, on stderr; of what a terminal obeys, colours alone.
pub fn tell(text: &str) {
    let mut err = io::stderr().lock();
    let text = if err.is_terminal() { coloured(text) } else { shown(text) };
    // There is no third place to complain at.
    let _ = err.write_all(text.as_bytes());
}

/// A line on stderr, without colours.
pub fn say(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{}\n", shown(line)).as_bytes());
}

/// Whether an answer could not be written: the disk that stdout goes to is full, say.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Whether there was an answer at all.
pub fn answered() -> bool {
    ANSWERED.load(Ordering::Relaxed)
}
