//! tunepipe

pub mod kernels;
pub mod plan;
pub mod text;
