//! What rounding takes back: a weight in 16 bits has fewer values than training moved it between, so a save may hold
//! little of what was learnt. Said where it is nearly all of it.

use std::ops::Range;
use std::sync::Mutex;

use half::{bf16, f16};

use crate::kernels::{Buf, Pool, Spec, ViewMut};
use crate::model::{Base, Float, Model, Tensor, unmerged};
use crate::store::StoredType;
use crate::text::Result;

/// Values of each tensor that are looked at, in whole rows from its first.
const LOOKED_AT: usize = 1 << 16;

/// Share of the moved values from which on something is said.
const NEARLY_ALL: f64 = 0.9;

/// Rows of a tensor that are looked at.
fn rows(tensor: &Tensor) -> usize {
    let (rows, columns) = tensor.dims();
    (LOOKED_AT / columns.max(1)).clamp(1, rows.max(1))
}

/// Counts, over the first rows of every tensor.
pub struct Swallowed<'m> {
    model: &'m Model,
    /// What the weights were before they learnt anything.
    before: Base<'m>,
    float: Float,
    counts: Mutex<Counts>,
}

struct Counts {
    room: Buf,
    moved: u64,
    lost: u64,
}

impl<'m> Swallowed<'m> {
    /// The room that it takes; none where nothing is rounded.
    pub fn spec(tensors: &[Tensor], float: Float) -> Option<Spec> {
        let largest = tensors.iter().map(|tensor| rows(tensor) * tensor.dims().1).max()?;
        (float != Float::F32).then(|| Spec::f32(&[largest]))
    }

    pub fn take(
        holding: &str,
        model: &'m Model,
        before: Base<'m>,
        tensors: &[Tensor],
        float: Float,
        pool: &dyn Pool,
    ) -> Result<Option<Self>> {
        let Some(spec) = Self::spec(tensors, float) else { return Ok(None) };
        let counts = Mutex::new(Counts { room: pool.take(holding, spec)?, moved: 0, lost: 0 });
        Ok(Some(Swallowed { model, before, float, counts }))
    }

    /// Looks at rows of a tensor as they are before they are rounded.
    pub fn see(&self, tensor: &Tensor, seen: Range<usize>, values: ViewMut<'_>) -> Result<()> {
        let columns = tensor.dims().1;
        let looked_at = seen.start..seen.end.min(rows(tensor));
        if looked_at.is_empty() {
            return Ok(());
        }
        let count = looked_at.len() * columns;
        let values = values.slice(0..count).cpu::<f32>()?;
        // Whoever panicked in between has left numbers that are still numbers.
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        unmerged(self.model, self.before, &tensor.name, looked_at, counts.room.view_mut().slice(0..count))?;
        let (mut moved, mut lost) = (0, 0);
        for (now, before) in values.iter().zip(counts.room.view().slice(0..count).cpu::<f32>()?) {
            if now != before {
                moved += 1;
                lost += u64::from(self.rounds_alike(*now, *before));
            }
        }
        counts.moved += moved;
        counts.lost += lost;
        Ok(())
    }

    fn rounds_alike(&self, one: f32, other: f32) -> bool {
        match self.float {
            Float::Bf16 => bf16::from_f32(one) == bf16::from_f32(other),
            Float::F16 => f16::from_f32(one) == f16::from_f32(other),
            Float::F32 => one == other,
        }
    }

    /// What there is to be said, where nearly all is lost.
    pub fn words(self, dtype: StoredType, adapter: bool) -> Option<String> {
        let Counts { moved, lost, .. } = self.counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let share = lost as f64 / moved.max(1) as f64;
        if share < NEARLY_ALL {
            return None;
        }
        let instead = if adapter {
            "`save adapter` holds all of it, and so does `dtype=f32`"
        } else {
            "`dtype=f32` holds all of it"
        };
        Some(format!(
            "rounded to {dtype}, {:.1} % of the weights that training moved are what they were before (of {moved} that \
             were looked at): the steps are smaller than the type's own; {instead}",
            100.0 * share
        ))
    }
}
