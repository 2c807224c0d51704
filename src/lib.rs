//! tunepipe

pub mod data;
pub mod kernels;
pub mod memory;
pub mod plan;
pub mod store;
pub mod text;
pub mod tools;
