//! One binary for all integration tests, so that the crate is linked once.

// What a test measured is worth a line.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod golden;
mod lang;
mod pipelines;
mod rooms;
