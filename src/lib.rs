//! tunepipe

pub mod kernels;
pub mod plan;
pub mod syntax;
pub mod text;
