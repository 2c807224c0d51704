//! The CUDA forms of the kernels: sources beside this file, and the one list of them.
//!
//! A kernel's comment says what it computes and which launch it expects; [`list`] says the latter once more for programs.
//! The sources are compiled on the card's machine at first use, so they lie in the binary as text. Compiled as C++, they
//! are held to the CPU forms on any machine (`kernels::tests::cuda`).

pub mod list;
pub mod step;
