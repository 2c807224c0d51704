//! The safetensors format: eight bytes of header length, a JSON header, the tensors' bytes.
//! Source: the format description of huggingface/safetensors.

mod header;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{TensorFile, TensorRecord};
pub use writer::{SafetensorsWriter, TensorSink, header_bytes};
