//! Which weights are used where they lie in the model's files, and which are copied.

use super::shape::Shape;
use super::source::WeightSource;
use super::weight::{Float, Form, float_of};
use crate::text::Result;

/// The holding of weights that are read where they lie.
pub const MAPPED: &str = "mapped tensors";

/// For each tensor of a shape, in the list's order, whether it is used where it lies. By default none is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping(Vec<bool>);

/// Bytes of a model that is read by a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// Matrices (linear layers, table, head) that stay in the files.
    pub matrices: u64,
    /// All that stays in the files.
    pub mapped: u64,
    /// All that is copied or quantised.
    pub held: u64,
}

impl Mapping {
    /// Every tensor that `source` holds as `form` does.
    pub fn of(shape: &Shape, form: Form, source: &dyn WeightSource) -> Mapping {
        Self::where_held(shape, form, |name, float| source.lends(name, float))
    }

    /// As if every tensor were stored as `stored`: for files that are not at hand.
    pub fn stored_as(shape: &Shape, form: Form, stored: Float) -> Mapping {
        Self::where_held(shape, form, |_, float| float == stored)
    }

    fn where_held(shape: &Shape, form: Form, lends: impl Fn(&str, Float) -> bool) -> Mapping {
        let tensors = shape.tensors();
        let one = |tensor: &super::Tensor| float_of(tensor.role, form).is_some_and(|float| lends(&tensor.name, float));
        Mapping(tensors.iter().map(one).collect())
    }

    /// Whether the tensor at this place in the list is used where it lies.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }

    pub fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }

    /// How the bytes of a model are divided.
    pub fn parts(&self, shape: &Shape, form: Form) -> Result<Parts> {
        let mut parts = Parts::default();
        for (at, tensor) in shape.tensors().iter().enumerate() {
            let (holding, specs) = super::held::tensor_specs(at, tensor, form, self)?;
            for spec in specs {
                let bytes = spec.bytes()?;
                match holding {
                    MAPPED => parts.mapped = parts.mapped.saturating_add(bytes),
                    _ => parts.held = parts.held.saturating_add(bytes),
                }
                if holding == MAPPED && tensor.shape.len() > 1 {
                    parts.matrices = parts.matrices.saturating_add(bytes);
                }
            }
        }
        Ok(parts)
    }
}
