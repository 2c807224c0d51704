//! One binary for all integration tests, so that the crate is linked once.

mod golden;
mod lang;
mod pipelines;
mod rooms;
