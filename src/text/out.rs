//! The two streams that a person or a script reads. A reader that went away ends no run.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static LOST: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// A result, on stdout. What cannot be written is remembered by [`lost`]; a reader that has seen enough (`| head`) is no
/// loss.
pub fn answer(text: &str) {
    ANSWERED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => LOST.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Progress, notes and diagnostics, on stderr, as they are.
pub fn tell(text: &str) {
    // There is no third place to complain at.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A line on stderr.
pub fn say(line: &str) {
    tell(&format!("{line}\n"));
}

/// Whether an answer could not be written: the disk that stdout goes to is full, say.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Whether there was an answer at all.
pub fn answered() -> bool {
    ANSWERED.load(Ordering::Relaxed)
}
