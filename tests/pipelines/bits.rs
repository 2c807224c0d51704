//! Memory switches and thread counts change no bit of any file that a run leaves.

use super::*;

/// All that a run leaves but what the clock decides.
pub(super) fn leaves(desk: &Desk, name: &str, threads: usize, text: &str) -> BTreeMap<String, Vec<u8>> {
    desk.run_on(Some(threads), name, &text.replace("OUT", &format!("out/{name}")));
    let mut found = desk.files(&format!("out/{name}"));
    let metrics = fs::read(desk.path(&format!("runs/{name}/metrics.jsonl"))).expect("metrics");
    assert!(metrics.len() > 200, "a training leaves more than that");
    found.insert("metrics.jsonl".into(), metrics);
    found
}

/// Runs `text` plainly, then with each set of switches (`SWITCH` on the training, `LOW` on the save) and threads.
fn all_the_same(desk: &Desk, text: &str) {
    let with = |switches: &str, low: &str| text.replace("SWITCH", switches).replace("LOW", low);
    let plain = leaves(desk, "plain", 2, &with("", ""));
    for (name, threads, switches, low) in [
        ("free", 2, "free_logits", ""),
        ("recompute", 2, "recompute", ""),
        ("low", 2, "", "low_ram"),
        ("one", 1, "", ""),
        ("three", 3, "", ""),
        ("all-one", 1, "free_logits recompute", "low_ram"),
        ("all-three", 3, "free_logits recompute", "low_ram"),
    ] {
        if low == "low_ram" && !text.contains("LOW") && switches.is_empty() {
            continue;
        }
        same(name, &plain, &leaves(desk, name, threads, &with(switches, low)));
    }
    // What the comparison would look like if it could not fail: another seed is another run.
    let other = leaves(desk, "other", 2, &with("seed=9", ""));
    assert_ne!(plain, other, "a seed must show");
}

fn lora(data: &str, quantize: &str, training: &str) {
    let text = format!(
        "load model \"model\"\nload data \"rows.jsonl\" format=completion holdout=4rows {data}\n{quantize}\n\
         train lora rank=4 alpha=8 epochs=2 batch=3 accum=2 lr=2e-3 warmup=2steps {training} SWITCH\n\
         save adapter \"OUT/adapter\"\nsave merged \"OUT/merged\" LOW\neval batch=4"
    );
    all_the_same(&Desk::new(), &text);
}

#[test]
fn lora_over_dense_weights() {
    lora("", "", "dropout=0.1");
}

#[test]
fn lora_over_nf4() {
    lora("", "quantize nf4", "");
}

#[test]
fn lora_over_doubly_quantised_nf4_with_dropout() {
    lora("", "quantize nf4 double_quant", "dropout=0.2 targets=[q_proj, v_proj, down_proj]");
}

#[test]
fn lora_on_packed_rows() {
    lora("packed max_len=200", "", "dropout=0.1");
}

#[test]
fn lora_over_nf4_on_packed_rows() {
    lora("packed max_len=200", "quantize nf4", "clip=none schedule=linear");
}

/// Embedding and head are one tensor, with gradients from both ends.
#[test]
fn full_training_with_tied_embeddings() {
    let desk = Desk::new();
    all_the_same(
        &desk,
        "load model init=random shape=tiny-llama seed=3\n\
         load data \"rows.jsonl\" format=completion holdout=4rows\n\
         train full epochs=2 batch=5 lr=1e-3 SWITCH\nsave model \"OUT/model\" dtype=f32",
    );
}

#[test]
fn full_training_on_packed_rows() {
    let desk = Desk::new();
    all_the_same(
        &desk,
        "load model \"model\"\n\
         load data \"rows.jsonl\" format=completion holdout=4rows packed max_len=256 train_on=all\n\
         train full epochs=2 batch=2 accum=2 lr=1e-3 SWITCH\nsave model \"OUT/model\"",
    );
}

/// A vocabulary so large that logits come in several windows; with a small one they fit into the first.
#[test]
fn logits_in_several_windows() {
    let desk = Desk::new();
    wide_model(&desk.path("wide"), 100_000);
    let text = "load model \"wide\" tokenizer=bytes\nload data \"rows.jsonl\" format=completion train_on=all\n\
                train lora rank=2 steps=3 batch=4 lr=1e-2 SWITCH\nsave adapter \"OUT/adapter\"";
    let kept = leaves(&desk, "kept", 2, &text.replace("SWITCH", ""));
    same("free", &kept, &leaves(&desk, "free", 2, &text.replace("SWITCH", "free_logits")));
    same("one", &kept, &leaves(&desk, "one", 1, &text.replace("SWITCH", "free_logits recompute")));

    let peak = |run: &str| {
        let rows = fs::read_to_string(desk.path(&format!("runs/{run}/memory.json"))).expect("memory");
        let rows: Vec<Value> = serde_json::from_str(&rows).expect("JSON");
        let ram = rows.iter().filter(|row| row["stage"] == "train lora" && row["place"] == "ram");
        ram.map(|row| row["measured"].as_u64().expect("bytes")).max().expect("a row")
    };
    // Over 256 counted tokens kept, at most 255 of them in a window.
    assert!(peak("free") + (20 << 20) < peak("kept"), "{} and {}", peak("free"), peak("kept"));
}

/// One narrow layer under many tokens; every value from its place.
pub(super) fn wide_model(folder: &Path, vocab: usize) {
    let config = format!(
        r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": {vocab},
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "hidden_act": "silu", "torch_dtype": "float32"}}"#
    );
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("config.json"), config).expect("written");
    let layer = "model.layers.0";
    let list = [
        ("model.embed_tokens.weight".to_owned(), vec![vocab, 8]),
        ("model.norm.weight".to_owned(), vec![8]),
        (format!("{layer}.input_layernorm.weight"), vec![8]),
        (format!("{layer}.post_attention_layernorm.weight"), vec![8]),
        (format!("{layer}.self_attn.q_proj.weight"), vec![8, 8]),
        (format!("{layer}.self_attn.k_proj.weight"), vec![4, 8]),
        (format!("{layer}.self_attn.v_proj.weight"), vec![4, 8]),
        (format!("{layer}.self_attn.o_proj.weight"), vec![8, 8]),
        (format!("{layer}.mlp.gate_proj.weight"), vec![16, 8]),
        (format!("{layer}.mlp.up_proj.weight"), vec![16, 8]),
        (format!("{layer}.mlp.down_proj.weight"), vec![8, 16]),
    ];
    let values = |shape: &[usize]| -> Vec<u8> {
        let count = shape.iter().product::<usize>();
        (0..count).flat_map(|at| (((at * 2_654_435_761) % 2_003) as f32 / 2_003.0 - 0.3).to_le_bytes()).collect()
    };
    let stored: Vec<(String, Vec<usize>, Vec<u8>)> =
        list.into_iter().map(|(name, shape)| (name, shape.clone(), values(&shape))).collect();
    let views = stored.iter().map(|(name, shape, bytes)| {
        (name, safetensors::tensor::TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor"))
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).expect("written");
}
