//! Targets a pipeline is held to.

use crate::text::Span;

/// CUDA compute capability: 7.5 is `Capability(7, 5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u8, pub u8);

impl Capability {
    /// bf16 arithmetic came with Ampere (8.0).
    pub fn has_bf16(self) -> bool {
        self >= Capability(8, 0)
    }
}

/// A device the catalogue knows, or one made of a budget line's own keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// `colab-t4`; none where the line names no device.
    pub name: Option<String>,
    /// GPU memory in bytes; none: no GPU, the CPU's rules decide the bytes.
    pub gpu: Option<u64>,
    pub ram: Option<u64>,
    pub disk: Option<u64>,
    pub cuda: Option<Capability>,
    /// Threads of a machine without a GPU; none: as many as the machine that plans computes with.
    pub threads: Option<usize>,
}

/// One `budget` line: a limit for each place that is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    pub device: Device,
    pub span: Span,
}

impl Budget {
    /// How a person knows this target: the device's name, or `this line`.
    pub fn label(&self) -> String {
        self.device.name.clone().unwrap_or_else(|| if self.device.gpu.is_some() { "gpu".into() } else { "cpu".into() })
    }
}
