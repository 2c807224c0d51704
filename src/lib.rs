//! tunepipe

pub mod kernels;
pub mod memory;
pub mod plan;
pub mod text;
