//! tunepipe

pub mod kernels;
pub mod plan;
pub mod store;
pub mod text;
