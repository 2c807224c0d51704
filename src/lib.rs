//! tunepipe

pub mod catalog;
pub mod check;
pub mod cli;
pub mod data;
pub mod kernels;
pub mod memory;
pub mod model;
pub mod plan;
pub mod run;
pub mod stages;
pub mod store;
pub mod syntax;
pub mod text;
pub mod tools;
pub mod train;
