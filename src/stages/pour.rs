//! Weights into a model's files: while one window of a tensor is written, the next is made and rounded.

use std::ops::Range;

use candle_core::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::kernels::{Buf, Pool, Spec, View, ViewMut, narrow};
use crate::model::{Float, Tensor, merge_window, merge_windows};
use crate::store::safetensors::TensorSink;
use crate::store::{ModelWriter, StoredType};
use crate::text::{Fault, Result};

/// Makes the values of a tensor's rows: its place in the list, the rows, and where they go.
pub type Make<'a> = dyn Fn(usize, Range<usize>, ViewMut<'_>) -> Result<()> + Sync + 'a;

/// What is written: a window in the type of the file that is ready, one that is coming, and, where that type is a narrower
/// one, the values before they are rounded.
pub struct Windows {
    float: Float,
    values: Option<Buf>,
    ready: Buf,
    coming: Buf,
}

impl Windows {
    /// The buffers of [`Windows::take`].
    pub fn specs(tensors: &[Tensor], float: Float) -> Vec<Spec> {
        let values = merge_window(tensors);
        let window = Spec::new(&values.shape, float.dtype());
        let values = (float != Float::F32).then_some(values);
        values.into_iter().chain([window.clone(), window]).collect()
    }

    pub fn take(holding: &str, tensors: &[Tensor], float: Float, pool: &dyn Pool) -> Result<Windows> {
        let values = merge_window(tensors);
        let window = Spec::new(&values.shape, float.dtype());
        let values = (float != Float::F32).then(|| pool.take(holding, values)).transpose()?;
        Ok(Windows { float, values, ready: pool.take(holding, window.clone())?, coming: pool.take(holding, window)? })
    }

    /// An f32 window, before anything is poured.
    pub fn values(&mut self) -> &mut Buf {
        self.values.as_mut().unwrap_or(&mut self.coming)
    }
}

/// Appends the first values of a window.
fn put(sink: &mut TensorSink<'_>, window: View<'_>) -> Result<()> {
    match window.dtype() {
        DType::BF16 => sink.write_16(StoredType::BF16, window.cpu::<bf16>()?.reinterpret_cast()),
        DType::F16 => sink.write_16(StoredType::F16, window.cpu::<f16>()?.reinterpret_cast()),
        _ => sink.write_f32(window.cpu()?),
    }
}

/// Writes every tensor of the list, in its order; `progress` hears how many values are written.
///
/// Errors: `save.not_finite`, those of writing, and what `make` returns.
pub fn pour(
    tensors: &[Tensor],
    writer: &mut ModelWriter,
    windows: Windows,
    make: &Make<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let Windows { float, mut values, mut ready, mut coming } = windows;
    let of = |(at, tensor): (usize, &'_ Tensor)| merge_windows(tensor).map(move |rows| (at, rows)).collect::<Vec<_>>();
    let mut order = tensors.iter().enumerate().flat_map(of);
    let len = |at: usize, rows: &Range<usize>| rows.len() * tensors[at].dims().1;
    let mut fill = |window: &mut Buf, next: &Option<(usize, Range<usize>)>| {
        let Some((at, rows)) = next else { return Ok(()) };
        let (name, part) = (&tensors[*at].name, 0..len(*at, rows));
        let Some(values) = &mut values else {
            make(*at, rows.clone(), window.view_mut().slice(part.clone()))?;
            return storable(name, window.view().slice(part).cpu()?, float);
        };
        make(*at, rows.clone(), values.view_mut().slice(part.clone()))?;
        let values = values.view().slice(part.clone());
        storable(name, values.cpu()?, float)?;
        narrow(window.view_mut().slice(part), values)
    };
    let mut done = 0u64;
    let mut current = order.next();
    fill(&mut ready, &current)?;
    for (at, tensor) in tensors.iter().enumerate() {
        writer.next_tensor(&tensor.name, |sink| {
            while let Some((_, rows)) = current.take_if(|(of, _)| *of == at) {
                let (next, len) = (order.next(), len(at, &rows));
                let window = ready.view().slice(0..len);
                let (written, made) = rayon::join(|| put(sink, window), || fill(&mut coming, &next));
                written?;
                made?;
                done += len as u64;
                progress(done);
                std::mem::swap(&mut ready, &mut coming);
                current = next;
            }
            Ok(())
        })?;
    }
    Ok(())
}
/// Refuses what a file of this type cannot hold: a model with NaN in it is no result.
pub fn storable(name: &str, values: &[f32], float: Float) -> Result<()> {
    // Above this a value rounds to infinity.
    let most = match float {
        Float::F16 => 65519.0f32,
        _ => f32::MAX,
    };
    // By blocks, so that the comparison runs in vectors.
    let fits = |block: &[f32]| block.iter().fold(true, |fits, x| fits & (x.abs() <= most));
    let Some(block) = values.chunks(4096).find(|block| !fits(block)) else { return Ok(()) };
    let worst = block.iter().copied().find(|x| x.is_nan() || x.abs() > most).unwrap_or(f32::NAN);
    let fault = Fault::new("save.not_finite", format!("`{name}` holds {worst}, which {} cannot", float.name()));
    Err(if worst.is_finite() {
        fault.help("dtype=bf16, or dtype=f32")
    } else {
        fault.note("nothing was saved: a model with such a value computes nothing")
    })
}
