//! Merged weights against the sum written out, from every base.

use super::*;
use crate::kernels::Spec;

fn whole(model: &Model, base: Base<'_>, tensor: &Tensor) -> Vec<f32> {
    let (rows, cols) = tensor.dims();
    let mut out = vec![0f32; rows * cols];
    for range in merge_windows(tensor) {
        let mut window = Heap.take("", Spec::f32(&[range.len() * cols])).expect("memory");
        merged(model, base, &tensor.name, range.clone(), window.view_mut()).expect("a window");
        out[range.start * cols..range.end * cols].copy_from_slice(window.view().cpu::<f32>().expect("f32"));
    }
    out
}

#[test]
fn merging_is_the_sum() {
    let shape = biased();
    let source = Lively { seed: 3, shape: shape.clone() };
    for form in [Form::dense(Float::F32), Form::dense(Float::Bf16), Form::dense(Float::F32).quantised(64, true)] {
        let mut model = lively(&shape, form);
        let targets = [Proj::Q, Proj::Down];
        model.adapter = Some(lively_adapter(&shape, lora(&targets)));
        for (at, tensor) in shape.tensors().iter().enumerate() {
            let (rows, cols) = tensor.dims();
            let mut held = Heap.take("", Spec::f32(&[rows * cols])).expect("memory");
            model.tensors[at].write(0..rows * cols, held.view_mut()).expect("values");
            let held = held.view().cpu::<f32>().expect("f32").to_vec();
            let mut original = vec![0f32; rows * cols];
            source.read(&tensor.name, 0..rows, &mut original).expect("values");
            for (base, weights) in [(Base::Held, held), (Base::Source(&source), original)] {
                let got = whole(&model, base, tensor);
                let pair = match (tensor.role, tensor.layer) {
                    (Role::Linear(proj), Some(layer)) => model.adapter.as_ref().and_then(|a| a.pair(layer, proj)),
                    _ => None,
                };
                let Some(pair) = pair else {
                    assert!(got == weights, "{} passes through", tensor.name);
                    continue;
                };
                let (a, b) = (pair.a.view().cpu::<f32>().expect("f32"), pair.b.view().cpu::<f32>().expect("f32"));
                let mut moved = 0f32;
                for i in 0..rows {
                    for j in 0..cols {
                        let sum: f32 = (0..3).map(|k| b[i * 3 + k] * a[k * cols + j]).sum();
                        let want = weights[i * cols + j] + 2.0 * sum;
                        assert!((got[i * cols + j] - want).abs() < 1e-6, "{}", tensor.name);
                        moved = moved.max((2.0 * sum).abs());
                    }
                }
                assert!(moved > 0.05, "the adapter does nothing to {}", tensor.name);
            }
        }
        let mut small = Heap.take("", Spec::f32(&[3])).expect("memory");
        let fault = merged(&model, Base::Held, "model.norm.weight", 0..4, small.view_mut()).expect_err("a fault");
        assert_eq!(fault.code, "merge.window");
    }
}

#[test]
fn windows_cover_rows_and_leave_no_short_tail() {
    for rows in [1, 127, 128, 255, 256, 383, 1000] {
        for per in [128, 256] {
            let mut next = 0;
            for window in windows::windows(rows, per) {
                assert_eq!(window.start, next);
                next = window.end;
                assert!(window.len() >= 128 || rows < 128);
                assert!(window.len() <= windows::largest_window(rows, per));
            }
            assert_eq!(next, rows);
        }
    }
    assert_eq!(windows::rows_per_window(128256), 128);
    assert_eq!(windows::rows_per_window(49152), 256);
    assert_eq!(windows::rows_per_block_window(100, 4096) * 100 % 4096, 0);
}

#[test]
fn an_adapter_from_a_file_has_to_fit() {
    let shape = tied();
    let settings = lora(&[Proj::Q]);
    let made = lively_adapter(&shape, settings.clone());
    let values: Vec<(String, Vec<f32>, Vec<f32>)> = made
        .iter()
        .map(|(module, pair)| {
            let list = |buf: &crate::kernels::Buf| buf.view().cpu::<f32>().expect("f32").to_vec();
            (module, list(&pair.a), list(&pair.b))
        })
        .collect();
    let pairs = || values.iter().map(|(module, a, b)| PairValues { module, a, b }).collect::<Vec<_>>();
    let read = |pairs: &[PairValues<'_>]| Adapter::from_tensors(&shape, settings.clone(), pairs, &Heap);
    let again = read(&pairs()).expect("an adapter");
    for ((_, was), (_, is)) in made.matrices().iter().zip(again.matrices()) {
        assert_eq!(was.view().cpu::<f32>().expect("f32"), is.view().cpu::<f32>().expect("f32"));
    }
    let code = |pairs: &[PairValues<'_>]| read(pairs).err().expect("a fault").code;
    assert_eq!(code(&pairs()[1..]), "adapter.missing_module");
    let mut stray = pairs();
    stray[0].module = "model.layers.0.self_attn.k_proj";
    assert_eq!(code(&stray), "adapter.unknown_module");
    stray[0].module = "model.layers.9.self_attn.q_proj";
    assert_eq!(code(&stray), "adapter.unknown_module");
    let mut short = pairs();
    short[1].b = &short[1].b[1..];
    assert_eq!(code(&short), "adapter.shape");
}
