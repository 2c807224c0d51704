//! Carries out an admitted schedule: executor, journal, and what a person sees meanwhile.

mod console;
mod executor;
mod hashes;
mod journal;
mod list;
mod manifest;
mod progress;
pub mod signals;
mod taken_up;

pub use console::{Console, Voice};
pub use executor::{Failure, Outcome, execute};
pub use hashes::{folder_hashes, hashes};
pub use journal::{Journal, already, fresh_folder, holds_run};
pub use list::{list, newest_run};
pub use manifest::manifest;
pub use progress::{Outcome as Stand, Progress};
pub use taken_up::{Start, outputs, start};
