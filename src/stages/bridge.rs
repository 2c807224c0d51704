//! Where rooms that do not know each other meet: files as weights, buffer specs as holdings.

use std::ops::Range;

use crate::kernels::Spec;
use crate::memory::{Grows, Holding, Place};
use crate::model::WeightSource;
use crate::store::ModelSource;
use crate::text::{Fault, Result};

/// A model's files as a source of weights.
pub struct FileWeights<'a>(pub &'a ModelSource);

impl WeightSource for FileWeights<'_> {
    fn read(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        self.0.read_rows(name, rows, out)
    }
}

/// The buffers of a plan, added up by holding, in the order in which holdings first appear.
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
            None => list.push(Holding::new(*name, place, bytes, grows)),
        }
    }
    Ok(list)
}
