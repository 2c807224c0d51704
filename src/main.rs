//! The `tunepipe` program.

use std::process::ExitCode;

/// Counts every allocation, so that a run can be held against its plan.
#[global_allocator]
static METER: tunepipe::memory::meter::Meter = tunepipe::memory::meter::Meter;

fn main() -> ExitCode {
    tunepipe::cli::main()
}
