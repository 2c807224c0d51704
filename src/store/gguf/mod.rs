//! The GGUF format, versions 2 and 3: metadata, tensor infos, block-quantised tensors; and how a Llama-family file of
//! it reads as a Hugging Face model. Source: docs/gguf.md of ggml, and llama.cpp's converter from Hugging Face.

mod bytes;
mod config;
pub(super) mod dequant;
mod file;
mod names;
#[cfg(test)]
pub(super) mod tests;
mod value;
mod vocab;

pub use file::{GgufFile, GgufTensor};
pub use value::GgufValue;
pub use vocab::GgufVocab;

pub(super) use config::hf_config;
pub(super) use names::{HeadRows, hf_name, permuted};
