//! Carries out an admitted schedule: executor, journal, and what a person sees meanwhile.

mod console;
mod executor;
mod journal;
mod list;
mod manifest;

pub use console::{Console, Voice};
pub use executor::{Failure, Outcome, execute};
pub use journal::{Journal, fresh_folder};
pub use list::list;
pub use manifest::manifest;
