//! Quantising and dequantising.

use tunepipe::kernels::{Heap, Key, Nf4, Nf4Layout, Pool, Spec, copy, fill_normal};

use crate::{Outcome, Wish, line, median, seconds};

/// Billions of values a second both ways, and dequantising against a copy of as many bytes as it writes.
pub fn nf4(wish: &Wish) -> Outcome {
    let n = 1 << 25;
    let mut values = Heap.take("", Spec::f32(&[n]))?;
    fill_normal(values.view_mut(), 0.02, Key::new(1))?;
    let mut out = Heap.take("", Spec::f32(&[n]))?;
    let mut lines = Vec::new();
    for double in [false, true] {
        let layout = Nf4Layout::new(n, 64, double)?;
        let mut quantised = Nf4::quantise(values.view().cpu()?, layout, &Heap, "", "")?;
        let (mut down, mut up, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..wish.rounds.max(5) {
            // Into buffers that exist: what is timed is arithmetic, not the system's first touch of pages.
            let mut writer = quantised.rewrite()?;
            down.push(seconds(|| writer.push(values.view().cpu()?))?);
            quantised = writer.finish(&Heap, "")?;
            up.push(seconds(|| quantised.dequantise(out.view_mut(), 0..n))?);
            copies.push(seconds(|| copy(out.view_mut(), values.view()))?);
        }
        let name = if double { "nf4 doubled" } else { "nf4" };
        let rate = |times: &[f64]| n as f64 / median(times.to_vec()) / 1e9;
        let ratio = median(up.iter().zip(&copies).map(|(up, copy)| up / copy).collect());
        lines.push(line(
            name,
            &[
                ("quantise_gvalues_per_s", rate(&down)),
                ("dequantise_gvalues_per_s", rate(&up)),
                ("dequantise_over_memcpy", ratio),
            ],
        ));
    }
    Ok(lines)
}
