//! Weights into a model's files: while one window of a tensor is rounded and written, the next is made.

use std::ops::Range;

use crate::kernels::{Buf, ViewMut};
use crate::model::{Float, Tensor, merge_windows};
use crate::store::ModelWriter;
use crate::store::safetensors::TensorSink;
use crate::text::{Fault, Result};

/// Makes the values of a tensor's rows: its place in the list, the rows, and where they go.
pub type Make<'a> = dyn Fn(usize, Range<usize>, ViewMut<'_>) -> Result<()> + Sync + 'a;

/// Writes every tensor of the list, in its order. Each of `windows` holds [`merge_window`](crate::model::merge_window);
/// `progress` hears how many values are written.
///
/// Errors: `save.not_finite`, those of writing, and what `make` returns.
pub fn pour(
    tensors: &[Tensor],
    writer: &mut ModelWriter,
    float: Float,
    windows: [Buf; 2],
    make: &Make<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let [mut ready, mut coming] = windows;
    let of = |(at, tensor): (usize, &'_ Tensor)| merge_windows(tensor).map(move |rows| (at, rows)).collect::<Vec<_>>();
    let mut order = tensors.iter().enumerate().flat_map(of);
    let len = |at: usize, rows: &Range<usize>| rows.len() * tensors[at].dims().1;
    let fill = |window: &mut Buf, next: &Option<(usize, Range<usize>)>| match next {
        Some((at, rows)) => make(*at, rows.clone(), window.view_mut().slice(0..len(*at, rows))),
        None => Ok(()),
    };
    let mut done = 0u64;
    let mut current = order.next();
    fill(&mut ready, &current)?;
    for (at, tensor) in tensors.iter().enumerate() {
        writer.next_tensor(&tensor.name, |sink| {
            while let Some((_, rows)) = current.take_if(|(of, _)| *of == at) {
                let (next, len) = (order.next(), len(at, &rows));
                let values = ready.view().slice(0..len);
                let (written, made) =
                    rayon::join(|| put(sink, &tensor.name, values.cpu()?, float), || fill(&mut coming, &next));
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

fn put(sink: &mut TensorSink<'_>, name: &str, values: &[f32], float: Float) -> Result<()> {
    storable(name, values, float)?;
    sink.write_f32(values)
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
