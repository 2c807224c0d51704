//! Element types as files store them.

use crate::text::{Fault, Result};

/// How the elements of a tensor lie in a file. The GGUF block types hold 32 or 256 elements with common scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoredType {
    F64,
    F32,
    F16,
    BF16,
    F8E4M3,
    F8E5M2,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

use StoredType::*;

impl StoredType {
    /// The field's own name of the type: `bf16`, `q4_1`, `q6_k`.
    pub fn name(self) -> &'static str {
        match self {
            F64 => "f64",
            F32 => "f32",
            F16 => "f16",
            BF16 => "bf16",
            F8E4M3 => "f8_e4m3",
            F8E5M2 => "f8_e5m2",
            I64 => "i64",
            I32 => "i32",
            I16 => "i16",
            I8 => "i8",
            U64 => "u64",
            U32 => "u32",
            U16 => "u16",
            U8 => "u8",
            Bool => "bool",
            Q4_0 => "q4_0",
            Q4_1 => "q4_1",
            Q5_0 => "q5_0",
            Q5_1 => "q5_1",
            Q8_0 => "q8_0",
            Q4K => "q4_k",
            Q5K => "q5_k",
            Q6K => "q6_k",
        }
    }

    /// Elements and bytes of the smallest unit that can be read alone.
    pub fn block(self) -> (usize, usize) {
        match self {
            F64 | I64 | U64 => (1, 8),
            F32 | I32 | U32 => (1, 4),
            F16 | BF16 | I16 | U16 => (1, 2),
            F8E4M3 | F8E5M2 | I8 | U8 | Bool => (1, 1),
            Q4_0 => (32, 18),
            Q4_1 => (32, 20),
            Q5_0 => (32, 22),
            Q5_1 => (32, 24),
            Q8_0 => (32, 34),
            Q4K => (256, 144),
            Q5K => (256, 176),
            Q6K => (256, 210),
        }
    }

    /// Bytes of `elements` elements; none on overflow or where they do not fill whole blocks.
    pub fn bytes_of(self, elements: u64) -> Option<u64> {
        let (per_block, bytes) = self.block();
        (elements.is_multiple_of(per_block as u64)).then_some(())?;
        (elements / per_block as u64).checked_mul(bytes as u64)
    }

    pub fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// Whether [`ModelSource::read_f32`](super::ModelSource::read_f32) can give its values.
    pub fn is_readable(self) -> bool {
        matches!(self, F64 | F32 | F16 | BF16) || self.is_quantised()
    }

    /// The type that safetensors calls `name`.
    pub fn from_safetensors(name: &str) -> Option<Self> {
        Some(match name {
            "F64" => F64,
            "F32" => F32,
            "F16" => F16,
            "BF16" => BF16,
            "F8_E4M3" => F8E4M3,
            "F8_E5M2" => F8E5M2,
            "I64" => I64,
            "I32" => I32,
            "I16" => I16,
            "I8" => I8,
            "U64" => U64,
            "U32" => U32,
            "U16" => U16,
            "U8" => U8,
            "BOOL" => Bool,
            _ => return None,
        })
    }

    /// What safetensors calls the type; none for GGUF's block types.
    pub fn safetensors_name(self) -> Option<&'static str> {
        Some(match self {
            F64 => "F64",
            F32 => "F32",
            F16 => "F16",
            BF16 => "BF16",
            F8E4M3 => "F8_E4M3",
            F8E5M2 => "F8_E5M2",
            I64 => "I64",
            I32 => "I32",
            I16 => "I16",
            I8 => "I8",
            U64 => "U64",
            U32 => "U32",
            U16 => "U16",
            U8 => "U8",
            Bool => "BOOL",
            _ => return None,
        })
    }
}

impl std::fmt::Display for StoredType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    pub shape: Vec<usize>,
    pub dtype: StoredType,
}

impl TensorInfo {
    pub fn new(name: impl Into<String>, shape: &[usize], dtype: StoredType) -> Self {
        TensorInfo { name: name.into(), shape: shape.to_vec(), dtype }
    }

    pub fn elements(&self) -> Result<u64> {
        elements(&self.shape)
            .ok_or_else(|| Fault::new("size.overflow", format!("`{}` is too large to address", self.name)))
    }

    pub fn bytes(&self) -> Result<u64> {
        self.dtype
            .bytes_of(self.elements()?)
            .ok_or_else(|| Fault::new("size.overflow", format!("`{}` is too large to address", self.name)))
    }
}

/// Product of the dimensions; none on overflow. A scalar's empty shape has one element.
pub(super) fn elements(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?))
}

/// A shape as people write it: `[576, 1536]`.
pub(super) fn shape_text(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", dims.join(", "))
}
