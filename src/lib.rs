//! tunepipe

pub mod catalog;
pub mod check;
pub mod kernels;
pub mod plan;
pub mod syntax;
pub mod text;
