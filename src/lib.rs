//! tunepipe

pub mod kernels;
pub mod model;
pub mod plan;
pub mod text;
pub mod train;
