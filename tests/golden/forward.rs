//! Logits, losses and greedy texts.

use tunepipe::kernels::Heap;
use tunepipe::model::{Extent, Float, Form, Sampling, generate, logits};
use tunepipe::train::{Evaluator, Micro};

use super::*;

fn logits_of(case: &str) {
    let model = model(&format!("{case}/model"), Form::dense(Float::F32));
    let expected = tensors(&format!("{case}/expected.safetensors"));
    let sequences = json(&format!("{case}/data.json"))["sequences"].as_array().expect("sequences").clone();
    assert!(!sequences.is_empty());
    for (at, sequence) in sequences.iter().enumerate() {
        let got = logits(&model, &ids(sequence), &Heap).expect("logits");
        let want = &expected[&format!("logits.{at}")].values;
        let top = want.iter().fold(0f32, |m, x| m.max(x.abs()));
        let off = largest_off(&got, want);
        assert!(off < 1e-5 * top, "{case}, sequence {at}: off by {off}, largest logit {top}");
    }
}

#[test]
fn logits_are_transformers() {
    for case in [
        "forward-gqa-tied",
        "forward-mha-untied",
        "forward-head-dim",
        "forward-biases",
        "forward-rope-linear",
        "forward-rope-linear-old-config",
        "forward-rope-llama3",
        "forward-rope-llama3-old-config",
        "forward-bf16",
        "forward-qwen2",
        "forward-mistral",
    ] {
        logits_of(case);
    }
}

/// One row of ids and unshifted labels, -100 where a token does not count.
pub fn micro(rows: &[Value]) -> Micro {
    let mut micro = Micro { starts: vec![0], ..Micro::default() };
    for row in rows {
        micro.ids.extend(ids(&row["ids"]));
        let labels = floats(&row["labels"]);
        let shifted = labels.iter().skip(1).map(|l| if *l < 0.0 { u32::MAX } else { *l as u32 });
        micro.labels.extend(shifted.chain([u32::MAX]));
        micro.starts.push(micro.ids.len() as u32);
    }
    micro
}

#[test]
fn evaluation_is_transformers() {
    let (data, expected) = (json("eval/data.json"), json("eval/expected.json"));
    let model = model(data["model"].as_str().expect("a path"), Form::dense(Float::F32));
    let rows = data["rows"].as_array().expect("rows");
    for batch in [1, 3, rows.len()] {
        let micros: Vec<Micro> = rows.chunks(batch).map(micro).collect();
        let extent = micros.iter().map(|m| Extent::of(&m.batch())).fold(Extent::default(), Extent::max);
        let mut evaluator = Evaluator::new(&model, extent, &Heap).expect("an evaluator");
        let eval = evaluator.run(&model, &mut micros.into_iter().map(Ok)).expect("an evaluation");
        assert_eq!(Some(eval.counted), expected["counted_tokens"].as_u64());
        let (loss, perplexity) = (expected["mean_loss"].as_f64().expect("a loss"), expected["perplexity"].as_f64());
        assert!((eval.loss - loss).abs() < 1e-6 * loss, "{} for {loss}", eval.loss);
        assert!((eval.perplexity / perplexity.expect("a number") - 1.0).abs() < 1e-5);
    }
}

#[test]
fn greedy_texts_are_transformers() {
    let (data, expected) = (json("sample/data.json"), json("sample/expected.json"));
    let model = model(data["model"].as_str().expect("a path"), Form::dense(Float::F32));
    let max_new = data["max_new"].as_u64().expect("a count") as usize;
    let sampling = Sampling { max_new, temperature: 0.0, top_p: 1.0, seed: 0, stop: vec![] };
    let prompts = data["prompts"].as_array().expect("prompts");
    for (prompt, want) in prompts.iter().zip(expected["continuations"].as_array().expect("texts")) {
        let got = generate(&model, &ids(prompt), &sampling, &Heap, &mut |_| true).expect("a text");
        assert_eq!(got, ids(want));
    }
}
