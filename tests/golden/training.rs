//! Whole training runs: every loss and gradient norm, the first gradients, the final weights.

use tunepipe::kernels::{Buf, Heap, Spec};
use tunepipe::model::{Base, Extent, Float, Form, merged};
use tunepipe::train::{Length, Schedule, Settings, Trainable, Trainer, Warmup, Window};

use super::forward::micro;
use super::*;

fn windows(data: &Value) -> Vec<Window> {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let window = |micros: Value| {
        let micros = list(&micros).iter().map(|rows| micro(&list(rows))).collect();
        Window { micros, epoch: 1.0 }
    };
    list(&data["windows"]).into_iter().map(window).collect()
}

fn values(buf: &Buf) -> &[f32] {
    buf.view().cpu::<f32>().expect("f32")
}

/// The reference's name of a parameter, in whichever of PEFT's spellings it stands.
fn reference<'a>(stored: &'a HashMap<String, Stored>, prefix: &str, name: &str) -> &'a Stored {
    let plain = format!("{prefix}.{name}");
    let peft = format!("{prefix}.base_model.model.{name}");
    stored.get(&plain).or_else(|| stored.get(&peft)).unwrap_or_else(|| panic!("no reference for {prefix} of {name}"))
}

fn trajectory(case: &str, form: Form, recompute: bool, free_logits: bool) {
    let (data, expected) = (json(&format!("{case}/data.json")), json(&format!("{case}/expected.json")));
    let stored = tensors(&format!("{case}/expected.safetensors"));
    let mut model = model(&format!("{case}/model"), form);
    let mut trainable = Trainable::Full;
    if path(&format!("{case}/adapter")).exists() {
        let (settings, adapter) = adapter(&format!("{case}/adapter"), &model.shape);
        trainable = Trainable::Lora(settings);
        model.adapter = Some(adapter);
    }
    let (recipe, windows) = (&data["recipe"], windows(&data));
    let number = |key: &str| recipe[key].as_f64().expect("a number");
    let settings = Settings {
        length: Length::Steps(windows.len() as u64),
        batch: number("batch") as usize,
        accum: number("accum") as usize,
        lr: number("lr"),
        schedule: Schedule::Cosine,
        warmup: Warmup::Steps(number("warmup_steps") as u64),
        weight_decay: number("weight_decay"),
        clip: recipe["clip"].as_f64(),
        recompute,
        free_logits,
        ..Settings::default()
    };
    let extent = windows.iter().flat_map(|w| &w.micros).map(|m| Extent::of(&m.batch()));
    let extent = extent.fold(Extent::default(), Extent::max);
    let mut trainer =
        Trainer::new(model, &trainable, settings, windows.len() as u64, extent, &Heap).expect("a trainer");
    let steps = |key: &str| floats(&expected[key]);
    let (losses, norms, rates, tokens) = (steps("loss"), steps("grad_norm"), steps("lr"), steps("tokens"));
    assert_eq!(losses.len(), windows.len());
    for (at, window) in windows.iter().enumerate() {
        let report = trainer.step(window).expect("a step");
        assert_eq!(report.counted as f64, tokens[at]);
        assert!((report.lr - rates[at]).abs() < 1e-15);
        let (loss, norm) = (report.loss / losses[at] - 1.0, report.grad_norm / norms[at] - 1.0);
        assert!(loss.abs() < 1e-5, "{case}, step {at}: loss {}, reference {}", report.loss, losses[at]);
        assert!(norm.abs() < 1e-5, "{case}, step {at}: norm {}, reference {}", report.grad_norm, norms[at]);
        if at == 0 {
            for (name, grad) in trainer.gradients() {
                let want = &reference(&stored, "grad", &name).values;
                let top = want.iter().fold(0f32, |m, x| m.max(x.abs()));
                let off = largest_off(values(grad), want);
                assert!(off < 2e-5 * top, "{case}: gradient of {name} off by {off}, largest {top}");
            }
        }
    }
    let mut most = 0f32;
    let mut count = 0;
    for (name, buf) in trainer.state() {
        let Some(name) = name.strip_prefix("param.") else { continue };
        let off = largest_off(values(buf), &reference(&stored, "final", name).values);
        assert!(off < 1e-5, "{case}: {name} ends off by {off}");
        most = most.max(off);
        count += 1;
    }
    assert_eq!(count, stored.keys().filter(|key| key.starts_with("final.")).count());
    println!("{case}: final weights within {most:e}");
}

#[test]
fn lora_runs_are_pefts() {
    trajectory("train-lora", Form::dense(Float::F32), false, false);
    trajectory("train-lora", Form::dense(Float::F32), true, true);
}

#[test]
fn qlora_runs_are_pefts_on_bitsandbytes_values() {
    for (recompute, free) in [(false, false), (false, true), (true, true)] {
        trajectory("train-qlora", Form::dense(Float::F32).quantised(64, false), recompute, free);
    }
}

#[test]
fn full_runs_are_torchs() {
    for case in ["train-full", "train-full-untied-bias"] {
        trajectory(case, Form::dense(Float::F32), false, false);
        trajectory(case, Form::dense(Float::F32), true, true);
    }
}

#[test]
fn nf4_layers_hold_bitsandbytes_values() {
    let model = model("train-qlora/model", Form::dense(Float::F32).quantised(64, false));
    let stored = tensors("train-qlora/expected.safetensors");
    let mut seen = 0;
    for tensor in model.shape.tensors().iter() {
        let Some(want) = stored.get(&format!("dequantised.{}", tensor.name)) else { continue };
        let (rows, cols) = tensor.dims();
        let mut got = Buf::zeros(Spec::f32(&[rows * cols]), &candle_core::Device::Cpu, None).expect("memory");
        merged(&model, Base::Held, &tensor.name, 0..rows, got.view_mut()).expect("values");
        assert!(values(&got) == want.values, "{}", tensor.name);
        seen += 1;
    }
    assert_eq!(seen, 7);
}
