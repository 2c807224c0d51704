//! Pages of codes about damaged files show what the program prints: the files are damaged here, the pipelines are run,
//! and the pictures in `stdlib/codes/files.md` are held to that. `PICTURES=write` writes them anew.

use std::fs;

use serde_json::{Value, json};

use super::{Desk, repository};
use tunepipe::catalog::codes;

const TRAIN: &str = "load model \"model\"\nload data \"rows.jsonl\" format=completion\ntrain lora\nsave adapter";
const ADAPTED: &str = "load model \"model\"\nload adapter \"adapter\"\nsample prompt=\"Q:\"";
const GGUF: &str = "load model \"m.gguf\"\nsample prompt=\"Q:\"";

/// What is done to the files, and the pipeline that meets it.
type Damage = (&'static str, fn(&Desk), &'static str);

const DAMAGES: &[Damage] = &[
    (
        "adapter.missing_module",
        |desk| adapter(desk, "r", json!(2), |c| c["target_modules"] = json!(["q_proj", "v_proj", "o_proj"])),
        ADAPTED,
    ),
    ("config.missing", |desk| fs::remove_file(desk.path("model/config.json")).expect("removed"), TRAIN),
    (
        "config.missing_key",
        |desk| config(desk, |c| drop(c.as_object_mut().and_then(|c| c.remove("hidden_size")))),
        TRAIN,
    ),
    (
        "file.not_a_file",
        |desk| {
            fs::remove_file(desk.path("model/model.safetensors")).expect("removed");
            fs::create_dir(desk.path("model/model.safetensors")).expect("a folder");
        },
        TRAIN,
    ),
    ("gguf.bad_magic", |desk| desk.write("m.gguf", "GGML, as llama.cpp wrote in 2023"), GGUF),
    ("gguf.architecture", |desk| gguf(desk, 3, &[text("general.architecture", "mamba")], &[]), GGUF),
    ("gguf.split", |desk| gguf(desk, 3, &[text("general.architecture", "llama"), int("split.count", 4)], &[]), GGUF),
    (
        "gguf.type",
        |desk| gguf(desk, 3, &[text("general.architecture", "llama")], &[("token_embd.weight", &[8, 8], 16)]),
        GGUF,
    ),
    ("gguf.tokenizer", |desk| llama(desk, &[int("tokenizer.ggml.tokens", 3)]), GGUF),
    (
        "gguf.truncated",
        |desk| {
            llama(desk, &[]);
            cut(desk, "m.gguf", 600);
        },
        GGUF,
    ),
    ("gguf.alignment", |desk| gguf(desk, 3, &[int("general.alignment", 3)], &[]), GGUF),
    ("json.not_an_object", |desk| desk.write("model/config.json", "[]\n"), TRAIN),
    ("model.activation", |desk| config(desk, |c| c["hidden_act"] = json!("gelu")), TRAIN),
    ("model.no_weights", |desk| fs::remove_file(desk.path("model/model.safetensors")).expect("removed"), TRAIN),
    (
        "model.no_index",
        |desk| {
            for shard in ["model/model-00001-of-00002.safetensors", "model/model-00002-of-00002.safetensors"] {
                fs::copy(desk.path("model/model.safetensors"), desk.path(shard)).expect("copied");
            }
            fs::remove_file(desk.path("model/model.safetensors")).expect("removed");
        },
        TRAIN,
    ),
    ("model.not_a_model", |_| {}, "load model \"model/model.safetensors\"\nsample prompt=\"Q:\""),
    (
        "model.pickle",
        |desk| {
            fs::rename(desk.path("model/model.safetensors"), desk.path("model/pytorch_model.bin")).expect("renamed");
        },
        TRAIN,
    ),
    ("model.missing_tensor", |desk| config(desk, |c| c["num_hidden_layers"] = json!(4)), TRAIN),
    ("model.unreadable_type", |desk| header(desk, |h| *h = h.replacen("\"BF16\"", "\"I16\" ", 1)), TRAIN),
    ("peft.no_adapter", |desk| fs::create_dir(desk.path("adapter")).expect("a folder"), ADAPTED),
    (
        "peft.half_missing",
        |desk| {
            adapter(desk, "r", json!(2), |_| {});
            // One half of a pair goes by another name.
            patch(desk, "adapter/adapter_model.safetensors", |h| {
                *h = h.replacen("layers.0.self_attn.q_proj.lora_B", "layers.9.self_attn.q_proj.lora_B", 1)
            });
        },
        ADAPTED,
    ),
    ("peft.unsupported", |desk| adapter(desk, "use_dora", json!(true), |_| {}), ADAPTED),
    (
        "safetensors.pointer",
        |desk| {
            desk.write(
        "model/model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 690000\n",
    )
        },
        TRAIN,
    ),
    ("safetensors.truncated", |desk| cut(desk, "model/model.safetensors", 100_000), TRAIN),
    ("safetensors.dtype", |desk| header(desk, |h| *h = h.replacen("\"BF16\"", "\"BF17\"", 1)), TRAIN),
];

/// Pages that no file of a test can bring about: they hang on rights, on the machine, or on another program.
const NONE: [&str; 4] = ["file.denied", "file.no_map", "file.io", "file.changed"];

#[test]
fn pages_of_damaged_files_show_what_is_printed() {
    let write = std::env::var("PICTURES").is_ok_and(|value| value == "write");
    let place = repository().join("stdlib/codes/files.md");
    let mut page_text = fs::read_to_string(&place).expect("pages");
    let mut wrong = Vec::new();
    for (code, damage, pipeline) in DAMAGES {
        let desk = Desk::new();
        damage(&desk);
        desk.write("finetune.tp", &format!("tunepipe 1\n{pipeline}\n"));
        let told = desk.tunepipe(&["check", "-q", "finetune.tp"]);
        assert!(!told.err.contains("panicked"), "{code}: {}", told.err);
        let shown = told.err.trim_end().to_owned() + "\n";
        let found = desk.tunepipe(&["check", "finetune.tp", "--json"]).json();
        let errors: Vec<&Value> = found["diagnostics"].as_array().expect("a list").iter().collect();
        if told.code != Some(1) || errors.len() != 1 || errors[0]["code"] != *code {
            wrong.push(format!("{code}: ends with {:?} and says\n{shown}", told.code));
            continue;
        }
        let page = codes::find(code).expect("a page");
        if write {
            page_text = with_picture(&page_text, &page.codes.join(", "), &shown);
        } else if page.shown.as_deref() != Some(&*shown) {
            wrong.push(format!(
                "{code}: the page's picture is stale (PICTURES=write makes it anew); printed is\n{shown}"
            ));
        }
    }
    if write {
        fs::write(&place, page_text).expect("written");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_of_files_has_a_picture() {
    let text = fs::read_to_string(repository().join("stdlib/codes/files.md")).expect("pages");
    for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
        let codes: Vec<&str> = heading.split(", ").collect();
        let tried = codes.iter().any(|code| DAMAGES.iter().any(|(damaged, ..)| damaged == code));
        let impossible = codes.iter().any(|code| NONE.contains(code));
        assert!(
            tried != impossible,
            "{heading}: {}",
            if tried { "has one after all" } else { "no file is damaged so" }
        );
    }
}

/// The pages with one of them showing this.
fn with_picture(text: &str, heading: &str, shown: &str) -> String {
    let start = text.find(&format!("\n## {heading}\n")).expect("the page is there") + 1;
    let end = text[start..].find("\n## ").map_or(text.len(), |at| start + at + 1);
    let page = text[start..end].split("```shown").next().expect("a page").trim_end();
    format!("{}{page}\n\n```shown\n{shown}```\n\n{}", &text[..start], &text[end..]).trim_end().to_owned() + "\n"
}

fn config(desk: &Desk, change: impl Fn(&mut Value)) {
    edit(desk, "model/config.json", change);
}

fn edit(desk: &Desk, name: &str, change: impl Fn(&mut Value)) {
    let text = fs::read_to_string(desk.path(name)).expect("a file");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut value);
    desk.write(name, &value.to_string());
}

/// The quickstart's adapter with its config changed.
fn adapter(desk: &Desk, key: &str, value: Value, more: fn(&mut Value)) {
    super::copy(&repository().join("pipelines/quickstart/adapter"), &desk.path("adapter"));
    edit(desk, "adapter/adapter_config.json", |config| {
        config[key] = value.clone();
        more(config);
    });
}

fn cut(desk: &Desk, name: &str, length: usize) {
    let bytes = fs::read(desk.path(name)).expect("a file");
    fs::write(desk.path(name), &bytes[..length]).expect("written");
}

/// Changes a safetensors header without changing its length.
fn header(desk: &Desk, change: impl Fn(&mut String)) {
    patch(desk, "model/model.safetensors", change);
}

fn patch(desk: &Desk, name: &str, change: impl Fn(&mut String)) {
    let mut bytes = fs::read(desk.path(name)).expect("a file");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let mut text = String::from_utf8(bytes[8..8 + length].to_vec()).expect("text");
    change(&mut text);
    assert_eq!(text.len(), length, "the header keeps its length");
    bytes[8..8 + length].copy_from_slice(text.as_bytes());
    fs::write(desk.path(name), bytes).expect("written");
}

/// A value of a GGUF's head: key, type, bytes.
type Entry = (String, u32, Vec<u8>);

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn text(key: &str, text: &str) -> Entry {
    (key.into(), 8, string(text))
}

fn int(key: &str, n: u32) -> Entry {
    (key.into(), 4, n.to_le_bytes().to_vec())
}

/// `m.gguf` with f32 tensors of zeros, or of another type by its number. Shapes are fastest first, as GGUF has them.
fn gguf(desk: &Desk, version: u32, entries: &[Entry], tensors: &[(&str, &[u64], u32)]) {
    let mut out = b"GGUF".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((entries.len() as u64).to_le_bytes());
    for (key, kind, bytes) in entries {
        out.extend(string(key));
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    }
    let mut offset = 0u64;
    for (name, shape, kind) in tensors {
        out.extend(string(name));
        out.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(kind.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += (shape.iter().product::<u64>() * 4).next_multiple_of(32);
    }
    out.resize(out.len().next_multiple_of(32) + offset as usize, 0);
    fs::write(desk.path("m.gguf"), out).expect("written");
}

/// A Llama of one layer with what is said of its tokenizer, which has no words.
fn llama(desk: &Desk, tokenizer: &[Entry]) {
    let mut entries = vec![
        text("general.architecture", "llama"),
        int("llama.context_length", 64),
        int("llama.embedding_length", 8),
        int("llama.block_count", 1),
        int("llama.feed_forward_length", 16),
        int("llama.attention.head_count", 2),
        ("llama.attention.layer_norm_rms_epsilon".into(), 6, 1e-5f32.to_le_bytes().to_vec()),
        text("tokenizer.ggml.model", "gpt2"),
    ];
    entries.extend_from_slice(tokenizer);
    let square: &[u64] = &[8, 8];
    gguf(
        desk,
        3,
        &entries,
        &[
            ("token_embd.weight", &[8, 32], 0),
            ("blk.0.attn_norm.weight", &[8], 0),
            ("blk.0.attn_q.weight", square, 0),
            ("blk.0.attn_k.weight", square, 0),
            ("blk.0.attn_v.weight", square, 0),
            ("blk.0.attn_output.weight", square, 0),
            ("blk.0.ffn_norm.weight", &[8], 0),
            ("blk.0.ffn_gate.weight", &[8, 16], 0),
            ("blk.0.ffn_up.weight", &[8, 16], 0),
            ("blk.0.ffn_down.weight", &[16, 8], 0),
            ("output_norm.weight", &[8], 0),
        ],
    );
}
