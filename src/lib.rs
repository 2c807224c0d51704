//! tunepipe

pub mod data;
pub mod kernels;
pub mod plan;
pub mod text;
