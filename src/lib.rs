//! tunepipe

pub mod kernels;
pub mod memory;
pub mod plan;
pub mod text;
pub mod tools;
