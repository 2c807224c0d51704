//! One binary for all integration tests, so that the crate is linked once.

// What a test measured is worth a line.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod golden;
mod lang;
mod pipelines;
mod rooms;

/// The built program. What it keeps between commands stays out of the user's own cache: it keeps nothing, unless a test
/// gives it a place.
fn program() -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tunepipe"));
    command.env("TUNEPIPE_CACHE", "off");
    command
}
