//! SmolLM2-135M-Instruct against what transformers makes of the same file. `scripts/fetch-real-model` brings it.

use tunepipe::stages::{Facts, Silent};

use super::*;

#[test]
fn a_real_model_scores_and_writes_as_transformers_does() {
    let model = repository().join("models/smollm2-135m-instruct.gguf");
    if !model.exists() {
        eprintln!("skipped: no {}; scripts/fetch-real-model brings it", model.display());
        return;
    }
    // Rows of q and k left in a GGUF's order would give 4.51 and 3.89.
    for (name, near) in [("paragraph", 2.709), ("plain", 1.836)] {
        scores_and_writes(&model, name, near);
    }
}

fn scores_and_writes(model: &Path, name: &str, near: f64) {
    let real = repository().join("tests/real");
    let read = |name: &str| fs::read_to_string(real.join(name)).expect("a file");
    let text = read(&format!("{name}.txt"));
    let expected: Value = serde_json::from_str(&read(&format!("{name}.expected.json"))).expect("JSON");
    let wanted: Vec<u32> = serde_json::from_str(&read(&format!("{name}.ids.json"))).expect("ids");

    let files = Facts::new(Box::new(Silent)).model(model).expect("a model");
    let tokenizer = files.tokenizer.as_ref().expect("a tokenizer");
    assert_eq!(tokenizer.encode(&text, false).expect("ids"), wanted);

    let desk = Desk::empty();
    desk.write("paragraph.txt", &text);
    let path = model.display();
    desk.run(
        "real",
        &format!(
            "load model \"{path}\" dtype=f32\nload data \"paragraph.txt\" format=text no_bos no_eos\n\
             eval split=all\nsample prompt=@\"paragraph.txt\" format=raw max_new=16"
        ),
    );
    let metrics = desk.metrics("runs/real");
    let loss = desk.evals("runs/real")[0];
    assert!((loss - near).abs() < 1e-3, "{name}: {loss}");
    let off = (loss - expected["mean_loss"].as_f64().expect("a loss")).abs();
    assert!(off < 1e-4, "mean loss {loss}, off by {off}");
    let eval = metrics.iter().find(|m| m["event"] == "eval").expect("an evaluation");
    assert_eq!(eval["counted"], expected["counted_tokens"]);
    let answer = metrics.iter().find(|m| m["event"] == "sample").expect("a sample")["answer"].clone();
    // transformers was made to go on after the model's own stop; a sample ends there.
    let greedy = expected["greedy"].as_array().expect("ids").iter().filter_map(|id| Some(id.as_u64()? as u32));
    let until: Vec<u32> = greedy.take_while(|id| !tokenizer.stop_ids().contains(id)).collect();
    assert_eq!(answer, tokenizer.decode(&until).expect("text").as_str());
    assert_eq!(tokenizer.encode(answer.as_str().expect("text"), false).expect("ids"), until);
}
