//! SIGINT and SIGTERM: the first asks the run to stop where nothing is lost, the second ends the process at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::text::{Fault, Result, out};

/// What the process was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    /// `SIGINT`
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
        }
    }
}

struct Heard {
    any: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

static HEARD: OnceLock<Heard> = OnceLock::new();

/// Listens from now on; `tell`: says so when it hears one. Until then, and to every signal after the first, the process
/// ends as any other does.
///
/// Errors: `run.signals` where the system lets nobody listen.
pub fn listen(tell: bool) -> Result<()> {
    if HEARD.get().is_some() {
        return Ok(());
    }
    let fault = |e: std::io::Error| Fault::new("run.signals", format!("cannot listen to signals: {e}"));
    let heard = Heard { any: Arc::default(), which: Arc::default() };
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal must not find the flag set by itself.
        flag::register_conditional_default(signal, heard.any.clone())
            .and_then(|_| flag::register_usize(signal, heard.which.clone(), usize::try_from(signal).unwrap_or(0)))
            .and_then(|_| flag::register(signal, heard.any.clone()))
            .map_err(fault)?;
    }
    if tell {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(fault)?;
        let say = move || {
            if signals.forever().next().is_some() {
                out::say("  interrupted: what is at work is brought to a good end; once more to stop at once");
            }
        };
        // Without the thread nothing is said, and all else is as it was.
        let _ = std::thread::Builder::new().name("signals".into()).stack_size(64 << 10).spawn(say);
    }
    let _ = HEARD.set(heard);
    Ok(())
}

/// Whether a signal was sent.
pub fn asked() -> bool {
    HEARD.get().is_some_and(|heard| heard.any.load(Ordering::Relaxed))
}

/// The signal that was sent.
pub fn signal() -> Option<Signal> {
    let which = HEARD.get()?.which.load(Ordering::Relaxed);
    match i32::try_from(which) {
        Ok(SIGINT) => Some(Signal::Interrupt),
        Ok(SIGTERM) => Some(Signal::Terminate),
        _ => None,
    }
}
