//! Merged weights, bit for bit in bf16.

use half::bf16;
use tunepipe::kernels::{Buf, Heap, Spec};
use tunepipe::model::{Base, Float, Form, merge_windows, merged};

use super::*;

fn held_to(prefix: &str, form: Form) {
    let mut model = model("merged/model", form);
    model.adapter = Some(adapter("merged/adapter", &model.shape).1);
    let stored = tensors("merged/expected.safetensors");
    let mut seen = 0u64;
    for tensor in model.shape.tensors().iter() {
        let Some(want) = stored.get(&format!("{prefix}.{}", tensor.name)) else { continue };
        let cols = tensor.dims().1;
        for rows in merge_windows(tensor) {
            let want = &want.values[rows.start * cols..rows.end * cols];
            let mut window = Buf::zeros(Spec::f32(&[want.len()]), &candle_core::Device::Cpu, None).expect("memory");
            merged(&model, Base::Held, &tensor.name, rows, window.view_mut()).expect("a window");
            let sums = window.view().cpu::<f32>().expect("f32");
            let off = sums.iter().zip(want).filter(|(sum, want)| bf16::from_f32(**sum).to_f32() != **want).count();
            assert_eq!(off, 0, "{}: {off} of {} differ", tensor.name, want.len());
        }
        seen += 1;
    }
    assert_eq!(Some(seen), json("merged/expected.json")["tensors_a_base"].as_u64());
}

#[test]
fn merging_onto_dense_weights_is_pefts() {
    held_to("dense", Form::dense(Float::Bf16));
    held_to("dense", Form::dense(Float::F32));
}

#[test]
fn merging_onto_nf4_is_torchtunes() {
    let dense = Form::dense(Float::F32);
    held_to("nf4", dense.quantised(64, false));
    // Loaded whole and quantised after: the same bytes.
    let read = model("merged/model", Form::dense(Float::Bf16));
    assert_eq!(
        read.quantise(64, false, &Heap, &mut |_, _| {}).expect("a model").form.weights,
        dense.quantised(64, false).weights
    );
}
