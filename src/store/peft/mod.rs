//! Adapters in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.
//! Source: the file formats of huggingface/peft.

mod config;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use config::{AdapterConfig, Targets};
pub use reader::{AdapterKey, AdapterModule, AdapterSource, Half};
pub use writer::{AdapterPlan, AdapterShape, AdapterWriter};

pub(super) const CONFIG: &str = "adapter_config.json";
pub(super) const WEIGHTS: &str = "adapter_model.safetensors";

/// What PEFT's wrapper puts before a module's path in the base model.
const WRAPPER: &str = "base_model.model.";
