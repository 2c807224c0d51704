//! What the program saves, read again by our own code, and laid out for the real libraries.
//!
//! `scripts/prove-parity` sets `TUNEPIPE_PROOF`: then every case stays there as a folder with `base/` (a dense model),
//! `adapter/`, `merged/`, and our logits of both as `adapter.safetensors` and `merged.safetensors`.

use std::path::Path;

use safetensors::tensor::TensorView;
use tunepipe::model::{Float, Model, logits};

use super::*;

/// Largest difference between logits that go through the adapter and logits of the merged weights: both f32, but the
/// sums are taken in another order.
const MERGED_OFF: f32 = 1e-4;

/// Ids of the proof's text.
fn text(vocab: usize) -> Vec<u32> {
    (0..48usize).map(|at| ((at * at * 7 + at * 13) % (vocab - 3) + 3) as u32).collect()
}

/// A tokenizer of `vocab` single characters, for models that have none; the rows are ids and need none of it.
fn tokenizer(vocab: usize) -> Value {
    let mut map = serde_json::Map::new();
    for id in 0..vocab {
        let token = match id {
            0 => "<unk>".to_owned(),
            1 => "<s>".to_owned(),
            2 => "</s>".to_owned(),
            _ => char::from_u32(0x2500 + id as u32).expect("a character").to_string(),
        };
        map.insert(token, id.into());
    }
    let special = |id: usize, content: &str| {
        serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                           "normalized": false, "special": true})
    };
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": map, "merges": []},
    })
}

fn run(folder: &Path, name: &str, text: &str) {
    let file = format!("{name}.tp");
    std::fs::write(folder.join(&file), format!("tunepipe 1\n{text}\n")).expect("written");
    let output = crate::program()
        .args(["run", "-q", &file, "--run-dir", &format!("runs/{name}")])
        .current_dir(folder)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Our logits as `check_outputs.py` wants them.
fn put(path: &Path, ids: &[u32], logits: &[f32]) {
    let ids_bytes: Vec<u8> = ids.iter().flat_map(|id| i64::from(*id).to_le_bytes()).collect();
    let logit_bytes: Vec<u8> = logits.iter().flat_map(|x| x.to_le_bytes()).collect();
    let views = [
        ("input_ids", TensorView::new(Dtype::I64, vec![1, ids.len()], &ids_bytes).expect("a tensor")),
        (
            "logits",
            TensorView::new(Dtype::F32, vec![ids.len(), logits.len() / ids.len()], &logit_bytes).expect("a tensor"),
        ),
    ];
    safetensors::serialize_to_file(views, None, path).expect("written");
}

/// A model folder under `folder`, by its whole path: `path` leaves those as they are.
fn at(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("UTF-8").to_owned()
}

/// Trains an adapter over `source` as `quantize` holds it, saves it alone and merged, and compares.
fn proven(case: &str, source: &Path, quantize: &str, form: Form) {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = match std::env::var_os("TUNEPIPE_PROOF") {
        Some(root) => PathBuf::from(root).join(case),
        None => scratch.path().join(case),
    };
    std::fs::create_dir_all(folder.join("model")).expect("a folder");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(source.join(file), folder.join("model").join(file)).expect("copied");
    }
    let shape = Shape::from_config(&json(&at(&folder, "model/config.json"))).expect("a shape");
    std::fs::write(folder.join("model/tokenizer.json"), tokenizer(shape.vocab).to_string()).expect("written");
    let rows = (0..12).map(|row| format!("{{\"input_ids\": {:?}}}\n", text(shape.vocab).split_at(row % 5 * 4).1));
    std::fs::write(folder.join("rows.jsonl"), rows.collect::<String>()).expect("written");

    let load = format!("load model \"model\" dtype=f32\nload data \"rows.jsonl\" format=tokens\n{quantize}\n");
    // An adapter that has learnt nothing adds nothing: this is the frozen base as it is held, written out dense.
    run(&folder, "base", &format!("{load}train lora rank=1 steps=1 lr=0\nsave merged \"base\" dtype=f32"));
    run(
        &folder,
        "train",
        &format!(
            "{load}train lora rank=4 alpha=8 steps=10 batch=4 lr=1e-2 schedule=constant\n\
             save adapter \"adapter\"\nsave merged \"merged\" dtype=f32 low_ram"
        ),
    );

    let ids = text(shape.vocab);
    let through = |model: &Model| logits(model, &ids, &Heap).expect("logits");
    let mut adapted = model(&at(&folder, "model"), form);
    let frozen = through(&adapted);
    adapted.adapter = Some(adapter(&at(&folder, "adapter"), &adapted.shape).1);
    let adapted = through(&adapted);
    let merged = through(&model(&at(&folder, "merged"), Form::dense(Float::F32)));
    let base = through(&model(&at(&folder, "base"), Form::dense(Float::F32)));
    let off = largest_off(&adapted, &merged);
    assert!(off < MERGED_OFF, "{case}: the merged model is off by {off}");
    let off = largest_off(&frozen, &base);
    assert!(off < MERGED_OFF, "{case}: the written base is off by {off}");
    let learnt = largest_off(&adapted, &frozen);
    assert!(learnt > 0.2, "{case}: the adapter moves no logit by more than {learnt}");
    put(&folder.join("adapter.safetensors"), &ids, &adapted);
    put(&folder.join("merged.safetensors"), &ids, &merged);
}

#[test]
fn what_is_saved_computes_what_was_trained() {
    let dense = Form::dense(Float::F32);
    let quickstart = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("pipelines/quickstart/model");
    for (name, source) in [
        ("tied", path("train-lora/model")),
        ("untied-biases", path("train-full-untied-bias/model")),
        ("quickstart", quickstart),
    ] {
        proven(&format!("{name}-dense"), &source, "", dense);
        proven(&format!("{name}-nf4"), &source, "quantize nf4", dense.quantised(64, false));
        proven(&format!("{name}-nf4-double"), &source, "quantize nf4 double_quant", dense.quantised(64, true));
    }
}
