//! Where rooms that do not know each other meet: files as weights, buffer specs as holdings.

use std::ops::Range;

use candle_core::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::Target;
use super::watch::{Stop, stopped};
use crate::kernels::{Lent, Spec, ViewMut};
use crate::memory::{Grows, Holding, Place};
use crate::model::{self, Extent, Float, Shape, Way, WeightSource};
use crate::store::{ModelSource, StoredType};
use crate::text::{Fault, Result};

/// A model's files as a source of weights.
pub struct FileWeights<'a>(pub &'a ModelSource);

impl WeightSource for FileWeights<'_> {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        self.0.read_rows(name, rows, out)
    }

    fn copy(&self, name: &str, rows: Range<usize>, out: ViewMut<'_>) -> Result<bool> {
        match out.dtype() {
            DType::BF16 => {
                let out = out.cpu::<bf16>()?.reinterpret_cast_mut();
                self.0.copy_rows(name, rows, StoredType::BF16, out)
            }
            DType::F16 => {
                let out = out.cpu::<f16>()?.reinterpret_cast_mut();
                self.0.copy_rows(name, rows, StoredType::F16, out)
            }
            _ => Ok(false),
        }
    }

    fn lends(&self, name: &str, float: Float) -> bool {
        self.0.lies_as(name, stored(float))
    }

    fn lend(&self, name: &str, float: Float, shape: &[usize]) -> Result<Option<Lent>> {
        let mapped = self.0.map_tensor(name, stored(float))?;
        mapped.map(|bytes| Lent::new(Box::new(bytes), Spec::new(shape, float.dtype()))).transpose()
    }
}

/// Weights that are not read on once the run is asked to stop.
pub struct Stoppable<'a> {
    pub of: &'a dyn WeightSource,
    pub stop: Stop,
}

impl Stoppable<'_> {
    fn go_on(&self) -> Result<()> {
        if (self.stop)() { Err(stopped("interrupted while weights were being read")) } else { Ok(()) }
    }
}

impl WeightSource for Stoppable<'_> {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        self.go_on()?;
        self.of.read(name, rows, out)
    }

    fn copy(&self, name: &str, rows: Range<usize>, out: ViewMut<'_>) -> Result<bool> {
        self.go_on()?;
        self.of.copy(name, rows, out)
    }

    fn lends(&self, name: &str, float: Float) -> bool {
        self.of.lends(name, float)
    }

    fn lend(&self, name: &str, float: Float, shape: &[usize]) -> Result<Option<Lent>> {
        self.of.lend(name, float, shape)
    }
}

fn stored(float: Float) -> StoredType {
    match float {
        Float::F32 => StoredType::F32,
        Float::Bf16 => StoredType::BF16,
        Float::F16 => StoredType::F16,
    }
}

/// What products pack; a GPU's library has its own workspace.
pub fn packing(shape: &Shape, extent: Extent, window: usize, way: Way, target: &Target) -> Option<Holding> {
    (!target.gpu).then(|| {
        let bytes = model::packing(shape, extent, window, way, target.threads, target.processor);
        Holding::new("matmul packing", Place::Ram, bytes, "threads, batch, max_len")
    })
}

/// The buffers of a plan, added up by holding, in the order in which holdings first appear. They lie in `place`, but for
/// those whose name says where they lie.
pub fn holdings_of(planned: &[(&'static str, Spec)], place: Place, grows: Grows) -> Result<Vec<Holding>> {
    let mut list: Vec<Holding> = Vec::new();
    for (name, spec) in planned {
        let bytes = spec.bytes()?;
        match list.iter_mut().find(|holding| holding.name == *name) {
            Some(holding) => {
                holding.bytes = holding
                    .bytes
                    .checked_add(bytes)
                    .ok_or_else(|| Fault::new("size.overflow", format!("`{name}` is too large to address")))?;
            }
            None => {
                let place = match *name {
                    model::MAPPED => Place::Mapped,
                    model::OFFLOADED => Place::Ram,
                    _ => place,
                };
                list.push(Holding::new(*name, place, bytes, grows));
            }
        }
    }
    Ok(list)
}
