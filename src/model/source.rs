//! Where weights come from when a model is read: files behind this trait, or a random start.

use std::ops::Range;

use rayon::prelude::*;

use super::shape::Shape;
use super::tensors::{Proj, Role, Tensor};
use super::weight::Float;
use crate::kernels::{Key, Lent, ViewMut, normal4};
use crate::text::{Fault, Result};

/// Gives the values of a model's tensors, a window of rows at a time.
pub trait WeightSource: Sync {
    /// Writes the rows `rows` of tensor `name` as f32 into `out`, which has exactly their length. A vector is one row
    /// for each element.
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()>;

    /// Writes the same rows into a bf16 or f16 buffer bit for bit, where the source holds them in that type; false
    /// where it does not, and they have to be read and rounded.
    fn copy(&self, _name: &str, _rows: Range<usize>, _out: ViewMut<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Whether the tensor lies in the source as kernels read it in this type, so that [`Self::lend`] gives it.
    fn lends(&self, _name: &str, _float: Float) -> bool {
        false
    }

    /// The whole tensor where it lies, of shape `shape`; none unless [`Self::lends`] says so.
    fn lend(&self, _name: &str, _float: Float, _shape: &[usize]) -> Result<Option<Lent>> {
        Ok(None)
    }
}

/// A model that has learnt nothing: weights normal with deviation 0.02, those that write to the residual stream
/// scaled by `1/√(2·layers)` as GPT-2 does; norms 1, biases 0. Each value follows from seed, tensor name and position.
pub struct Random {
    seed: u64,
    tensors: std::collections::HashMap<String, Tensor>,
    residual: f32,
}

impl Random {
    pub fn new(seed: u64, shape: &Shape) -> Random {
        let tensors = shape.tensors().iter().cloned().map(|t| (t.name.clone(), t)).collect();
        Random { seed, tensors, residual: (1.0 / (2.0 * shape.layers as f64).sqrt()) as f32 }
    }
}

impl WeightSource for Random {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(Fault::new("model.missing_tensor", format!("a model of this shape has no tensor `{name}`")));
        };
        let deviation = match tensor.role {
            Role::Norm => {
                out.fill(1.0);
                return Ok(());
            }
            Role::Bias(_) => {
                out.fill(0.0);
                return Ok(());
            }
            Role::Linear(Proj::O | Proj::Down) => 0.02 * self.residual,
            Role::Embedding | Role::Linear(_) | Role::Head => 0.02,
        };
        let key = Key::new(self.seed).with(name_stream(name));
        let (_, cols) = tensor.dims();
        let first = rows.start as u64 * cols as u64;
        const CHUNK: usize = 1 << 14;
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let start = first + (chunk * CHUNK) as u64;
            let mut four = normal4(key, start / 4);
            for (index, value) in (start..).zip(out) {
                if index % 4 == 0 {
                    four = normal4(key, index / 4);
                }
                *value = deviation * four[(index % 4) as usize];
            }
        });
        Ok(())
    }
}

/// A stream number of a tensor's or module's name (64-bit FNV-1a), so that random values do not depend on the order
/// in which tensors are made.
pub(crate) fn name_stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
