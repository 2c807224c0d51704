//! What is saved loads again as the same model.

use super::*;

const DATA: &str = "load data \"rows.jsonl\" format=completion holdout=4rows\n";

fn merged(desk: &Desk, name: &str) -> BTreeMap<String, Vec<u8>> {
    desk.files(&format!("out/{name}"))
}

#[test]
fn a_saved_model_saves_again_as_the_same_bytes() {
    let desk = Desk::new();
    desk.run("first", "load model \"model\"\nsave model \"out/first\"");
    desk.run("second", "load model \"out/first\"\nsave model \"out/second\"");
    same("again", &merged(&desk, "first"), &merged(&desk, "second"));
    let (source, saved) = (tensors(&desk.path("model")), tensors(&desk.path("out/first")));
    assert!(source.len() > 20 && source.keys().eq(saved.keys()));
    for (name, tensor) in &source {
        assert!(tensor.dtype == saved[name].dtype && tensor.values == saved[name].values, "{name}");
    }
    // Tokenizer files are carried over as they are.
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        assert!(merged(&desk, "first")[name] == desk.files("model")[name], "{name}");
    }
}

#[test]
fn a_new_model_saves_again_as_the_same_bytes() {
    let desk = Desk::new();
    desk.run("first", "load model init=random shape=tiny-llama seed=5\nsave model \"out/first\"");
    desk.run("second", "load model \"out/first\" shape=tiny-llama\nsave model \"out/second\"");
    same("again", &merged(&desk, "first"), &merged(&desk, "second"));
    desk.run("third", "load model init=random shape=tiny-llama seed=6\nsave model \"out/third\"");
    assert_ne!(merged(&desk, "first")["model.safetensors"], merged(&desk, "third")["model.safetensors"]);
}

/// Saved, loaded and merged is merged at once: for `quantize` as given.
fn through_the_adapter_file(quantize: &str) -> Desk {
    let desk = Desk::new();
    desk.run(
        "train",
        &format!(
            "load model \"model\"\n{DATA}{quantize}\ntrain lora rank=4 steps=6 batch=4 lr=5e-3\n\
             save adapter \"out/adapter\"\nsave merged \"out/direct\"\neval"
        ),
    );
    desk.run(
        "merge",
        &format!("load model \"model\"\n{DATA}{quantize}\nload adapter \"out/adapter\"\nsave merged \"out/later\" low_ram\neval"),
    );
    same(quantize, &merged(&desk, "direct"), &merged(&desk, "later"));
    assert_eq!(desk.evals("runs/train").last(), desk.evals("runs/merge").last(), "the loaded adapter scores alike");
    assert_ne!(merged(&desk, "direct")["model.safetensors"], desk.files("model")["model.safetensors"]);
    desk
}

#[test]
fn an_adapter_over_dense_weights_merges_later_as_at_once() {
    through_the_adapter_file("");
}

#[test]
fn an_adapter_over_nf4_merges_later_as_at_once() {
    through_the_adapter_file("quantize nf4");
}

#[test]
fn an_adapter_over_doubly_quantised_nf4_merges_later_as_at_once() {
    through_the_adapter_file("quantize nf4 double_quant block=128");
}

#[test]
fn the_original_base_is_the_dense_merge_of_the_same_adapter() {
    let desk = Desk::new();
    desk.run(
        "train",
        &format!(
            "load model \"model\"\n{DATA}quantize nf4\ntrain lora rank=4 steps=6 batch=4 lr=5e-3\n\
             save adapter \"out/adapter\"\nsave merged \"out/quantized\"\nsave merged \"out/original\" base=original\n\
             save merged \"out/original-low\" base=original low_ram"
        ),
    );
    desk.run("dense", "load model \"model\"\nload adapter \"out/adapter\"\nsave merged \"out/dense\"");
    same("original", &merged(&desk, "original"), &merged(&desk, "dense"));
    same("original, low_ram", &merged(&desk, "original"), &merged(&desk, "original-low"));
    assert_ne!(merged(&desk, "original")["model.safetensors"], merged(&desk, "quantized")["model.safetensors"]);
}

/// A full training stands between the file and the adapter: neither base may lose it unsaid.
#[test]
fn a_full_training_is_not_lost_by_merging() {
    let desk = Desk::new();
    let text = format!(
        "load model \"model\"\n{DATA}train full steps=4 batch=4 lr=1e-3\nsave model \"out/full\" dtype=f32\n\
         train lora rank=4 steps=1 batch=4 lr=0\nsave merged \"out/merged\" dtype=f32"
    );
    desk.run("held", &text);
    assert_ne!(
        tensors(&desk.path("out/full"))["model.norm.weight"].values,
        tensors(&desk.path("model"))["model.norm.weight"].values
    );
    same("held", &merged(&desk, "full"), &merged(&desk, "merged"));

    let original = text.replace("out/", "out/original-") + " base=original";
    desk.write("original.tp", &format!("tunepipe 1\n{original}\n"));
    let told = desk.tunepipe(&["run", "-q", "original.tp", "--run-dir", "runs/original"]);
    let said = told.ended(1).err;
    assert!(said.contains("original.tp:7:") && said.contains("base=original"), "{said}");
    assert!(!desk.path("runs/original").exists() && !desk.path("out/original-full").exists());
}

#[test]
fn training_goes_on_with_a_loaded_adapter() {
    let desk = Desk::new();
    let train = |steps: usize| format!("train lora rank=4 alpha=8 steps={steps} batch=4 lr=5e-3 schedule=constant\n");
    desk.run("start", &format!("load model \"model\"\n{DATA}{}save adapter \"out/a\"\neval", train(12)));
    desk.run(
        "on",
        &format!("load model \"model\"\n{DATA}load adapter \"out/a\"\n{}save adapter \"out/b\"\neval", train(12)),
    );
    let (start, on) = (desk.evals("runs/start"), desk.evals("runs/on"));
    let (ended, began) = (start[start.len() - 1], on[0]);
    assert!((ended - began).abs() < 1e-5, "it goes on from where the other ended: {ended}, {began}");
    assert!(on[on.len() - 1] < ended, "{on:?} after {start:?}");
    let (a, b) = (tensors(&desk.path("out/a")), tensors(&desk.path("out/b")));
    assert!(a.keys().eq(b.keys()) && a.len() == 3 * 7 * 2);
    for (name, tensor) in &a {
        assert!(tensor.values != b[name].values, "{name} did not learn");
    }

    desk.write(
        "wrong.tp",
        &format!(
            "tunepipe 1\nload model \"model\"\n{DATA}load adapter \"out/a\"\ntrain lora rank=8 steps=2\nsave adapter\n"
        ),
    );
    let wrong = desk.tunepipe(&["check", "--json", "wrong.tp"]).ended(1).json();
    assert_eq!(wrong["diagnostics"][0]["code"], "train.other_adapter");
    assert_eq!(wrong["diagnostics"][0]["line"], 5);
}

#[test]
fn every_type_is_one_rounding_away() {
    let desk = Desk::new();
    desk.run(
        "save",
        "load model init=random shape=tiny-llama seed=2\nsave model \"out/f32\" dtype=f32\nsave model \"out/bf16\" dtype=bf16\n\
         save model \"out/f16\" dtype=f16\nsave model \"out/auto\"",
    );
    let read = |name: &str| tensors(&desk.path("out").join(name));
    let (f32s, bf16s, f16s) = (read("f32"), read("bf16"), read("f16"));
    let mut rounded = 0;
    for (name, exact) in &f32s {
        assert_eq!((exact.dtype, bf16s[name].dtype, f16s[name].dtype), (Dtype::F32, Dtype::BF16, Dtype::F16), "{name}");
        for (at, x) in exact.values.iter().enumerate() {
            let (b, h) = (half::bf16::from_f32(*x).to_f32(), half::f16::from_f32(*x).to_f32());
            assert!(bf16s[name].values[at] == b && f16s[name].values[at] == h, "{name}[{at}]");
            rounded += usize::from(b != *x);
        }
    }
    assert!(rounded > 100_000, "values that need no rounding show nothing");
    same("auto is bf16 for a new model", &merged(&desk, "bf16"), &merged(&desk, "auto"));
    for (folder, word) in [("f32", "float32"), ("bf16", "bfloat16"), ("f16", "float16")] {
        let config: Value = serde_json::from_slice(&merged(&desk, folder)["config.json"]).expect("JSON");
        assert!(config["torch_dtype"] == word || config["dtype"] == word, "{config}");
    }
}

#[test]
fn shards_load_again_as_one_model() {
    let desk = Desk::new();
    desk.run("cut", &format!("load model \"model\"\n{DATA}eval split=all\nsave model \"out/cut\" max_shard=200KB"));
    let files = merged(&desk, "cut");
    let shards: Vec<&String> = files.keys().filter(|name| name.ends_with(".safetensors")).collect();
    assert!(shards.len() >= 4, "{shards:?}");
    assert!(!files.contains_key("model.safetensors"));
    let index: Value = serde_json::from_slice(&files["model.safetensors.index.json"]).expect("JSON");
    let map = index["weight_map"].as_object().expect("a map");
    assert_eq!(map.len(), tensors(&desk.path("model")).len());
    for (tensor, shard) in map {
        let bytes = &files[shard.as_str().expect("a name")];
        assert!(bytes.len() <= 200_000 + 8_192, "{shard} has {} bytes", bytes.len());
        assert!(
            SafeTensors::deserialize(bytes).expect("safetensors").tensor(tensor).is_ok(),
            "{tensor} is not in {shard}"
        );
    }
    desk.run("whole", &format!("load model \"out/cut\"\n{DATA}eval split=all\nsave model \"out/whole\""));
    assert_eq!(desk.evals("runs/cut"), desk.evals("runs/whole"));
    desk.run("plain", "load model \"model\"\nsave model \"out/plain\"");
    same("joined again", &merged(&desk, "whole"), &merged(&desk, "plain"));
}

/// A save into a run's folder is found by `check`, and not when the run has come to it.
#[test]
fn no_save_goes_into_the_folder_of_a_run() {
    let desk = Desk::new();
    let text = |out: &str| {
        format!(
            "tunepipe 1\nload model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora steps=1 batch=2\nsave adapter {out}\n"
        )
    };
    let refused = |out: &str, more: &[&str], words: &str| {
        desk.write("r.tp", &text(&format!("\"{out}\"")));
        let verb = if more.is_empty() { "check" } else { "run" };
        let told = desk.tunepipe(&[&[verb, "r.tp"], more].concat()).ended(1);
        assert!(told.err.contains("output.run") && told.err.contains(words), "{out}: {}", told.err);
    };
    let first = |out: &str, words: &str| refused(out, &[], words);
    first("runs", "makes its own folder");
    first("runs/r", "makes its own folder");
    first("./runs/../runs/r", "makes its own folder");
    first("runs/r/latest/adapter", "`latest`");
    for out in ["rd", "."] {
        refused(out, &["--run-dir", "rd"], "makes its own folder");
    }
    refused("rd/manifest.json", &["--run-dir", "rd"], "writes itself");
    assert!(!desk.path("rd").exists() && !desk.path("runs").exists(), "nothing was begun");

    // In the run's own folder a save has its place, and the unnamed one another.
    desk.write("r.tp", &text("\"rd/mine\"").replace("save adapter", "save adapter\nsave adapter"));
    desk.tunepipe(&["run", "-q", "r.tp", "--run-dir", "rd"]).ended(0);
    assert!(desk.path("rd/mine/adapter_config.json").exists() && desk.path("rd/adapter/adapter_config.json").exists());
    desk.write("r.tp", &text("\"re/adapter\"").replace("save adapter", "save adapter\nsave adapter"));
    let told = desk.tunepipe(&["run", "-q", "r.tp", "--run-dir", "re"]).ended(1);
    assert!(told.err.contains("output.twice") && !desk.path("re").exists(), "{}", told.err);
    // Another run's folder is its own.
    first("rd/other", "another run");
    first("rd", "another run");
    // An adapter that lies where the run will save its own.
    desk.write("old/adapter/adapter_config.json", "{}");
    desk.write("r.tp", &text(""));
    let told = desk.tunepipe(&["run", "-q", "r.tp", "--run-dir", "old"]).ended(1);
    assert!(told.err.contains("output.exists"), "{}", told.err);
}

/// Steps that are far smaller than a 16-bit weight's own are gone when they are saved, and that is said.
#[test]
fn what_rounding_takes_back_is_said() {
    let desk = Desk::new();
    let run = |name: &str, training: &str, save: &str| {
        desk.write(
            &format!("{name}.tp"),
            &format!("tunepipe 1\nload model \"model\" dtype=f32\nload data \"rows.jsonl\" format=completion\n{training}\n{save}\n"),
        );
        let told = desk.tunepipe(&["run", &format!("{name}.tp"), "--run-dir", &format!("runs/{name}")]).ended(0);
        assert!(!told.err.contains("over the plan"), "{}", told.err);
        told.err.contains("of the weights that training moved are what they were before")
    };
    let (small, large) = ("steps=2 batch=4 lr=1e-8 weight_decay=0", "steps=2 batch=4 lr=1e-2");
    for (at, (save, low)) in [("bf16", ""), ("bf16", "low_ram"), ("f16", "low_ram")].into_iter().enumerate() {
        let merged = |to: &str| format!("save merged \"out/{to}{at}\" dtype={save} {low}");
        assert!(run(&format!("small{at}"), &format!("train lora {small}"), &merged("small")), "{save} {low}");
        assert!(!run(&format!("large{at}"), &format!("train lora {large}"), &merged("large")), "{save} {low}");
    }
    assert!(!run("wide", &format!("train lora {small}"), "save merged \"out/wide\" dtype=f32"));
    assert!(run("full", &format!("train full {small}"), "save model \"out/full\" dtype=bf16"));
    assert!(!run("all", &format!("train full {large}"), "save model \"out/all\" dtype=bf16"));
    // What was really lost: of weights that were in bf16 before, nothing has moved at all.
    let (source, saved) = (tensors(&desk.path("model")), tensors(&desk.path("out/full")));
    assert!(saved.iter().all(|(name, tensor)| {
        let was = source[name].values.iter().map(|x| half::bf16::from_f32(*x).to_f32());
        was.zip(&tensor.values).filter(|(was, now)| was != *now).count() * 20 < tensor.values.len()
    }));
}
