//! 8-bit AdamW against bitsandbytes, value by value.

use tunepipe::kernels::{AdamW, Buf, Heap, MOMENT_BLOCK, Moment8, Pool, Spec, adamw8};

use super::{floats_of, largest_off, tensors};

#[test]
fn eight_bit_moments_are_bitsandbytes() {
    let stored = tensors("adamw8/expected.safetensors");
    let start = &stored["start"].values;
    let n = start.len();
    let take = |shape: &[usize], dtype| Heap.take("", Spec::new(shape, dtype)).expect("a buffer");
    let (f32, u8) = (candle_core::DType::F32, candle_core::DType::U8);
    let mut p = take(&[n], f32);
    p.view_mut().cpu::<f32>().expect("f32").copy_from_slice(start);
    let mut g = take(&[n], f32);
    let blocks = n.div_ceil(MOMENT_BLOCK);
    let [mut mc, mut vc] = [(); 2].map(|()| take(&[n], u8));
    let [mut ms, mut vs] = [(); 2].map(|()| take(&[blocks], f32));
    let rule = AdamW { weight_decay: 0.01, ..AdamW::default() };
    let mut steps = 0;
    while let Some(grad) = stored.get(&format!("grad.{steps}")) {
        g.view_mut().cpu::<f32>().expect("f32").copy_from_slice(&grad.values);
        let m = Moment8 { codes: mc.view_mut(), absmax: ms.view_mut() };
        let v = Moment8 { codes: vc.view_mut(), absmax: vs.view_mut() };
        adamw8(p.view_mut(), m, v, g.view(), 1e-2, steps + 1, 1.0, &rule).expect("a step");
        let theirs = &stored[&format!("param.{steps}")].values;
        // Where a second moment is rounded to 0, a step is as large as 1/ε lets it be: hence relative.
        let off =
            floats_of(&p).iter().zip(theirs).fold(0f32, |most, (a, b)| most.max((a - b).abs() / b.abs().max(1.0)));
        assert!(off < 1e-6, "step {steps}: off by {off}");
        steps += 1;
    }
    assert_eq!(steps, 5);
    for (what, codes, scales) in [("m", &mc, &ms), ("v", &vc, &vs)] {
        let differ = codes_that_differ(codes, &stored[&format!("{what}.codes")].values);
        assert_eq!(differ, 0, "{what}: codes of {n}");
        let off = largest_off(floats_of(scales), &stored[&format!("{what}.absmax")].values);
        assert!(off < 1e-7, "{what}: scales off by {off}");
    }
}

fn codes_that_differ(ours: &Buf, theirs: &[f32]) -> usize {
    ours.view().cpu::<u8>().expect("u8").iter().zip(theirs).filter(|(a, b)| f32::from(**a) != **b).count()
}
