use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::store::gguf::tests::tiny;
use crate::store::safetensors::SafetensorsWriter;
use crate::store::{AtomicFile, TensorInfo};

/// A weight file of zero-dimensional meaning: names and shapes, values counting up from `from`.
fn weights(path: &Path, tensors: &[(&str, &[usize], StoredType)], from: f32) {
    fill(AtomicFile::create(path, true).unwrap(), tensors, from);
}

fn fill(file: AtomicFile, tensors: &[(&str, &[usize], StoredType)], from: f32) {
    let list: Vec<TensorInfo> = tensors.iter().map(|(n, s, d)| TensorInfo::new(*n, s, *d)).collect();
    let mut writer = SafetensorsWriter::create(file, &list, &[]).unwrap();
    for info in &list {
        let values: Vec<f32> = (0..info.elements().unwrap()).map(|i| from + i as f32).collect();
        writer
            .tensor(&info.name, |s| if info.dtype == StoredType::U8 { Ok(()) } else { s.write_f32(&values) })
            .unwrap();
    }
    writer.commit().unwrap();
}

const NORM: (&str, &[usize], StoredType) = ("model.norm.weight", &[4], StoredType::F32);
const HEAD: (&str, &[usize], StoredType) = ("lm_head.weight", &[6, 4], StoredType::BF16);

fn folder() -> (TempDir, PathBuf) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("tiny");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    (dir, path)
}

fn code(path: &Path) -> &'static str {
    ModelSource::open(path).unwrap_err().code
}

#[test]
fn a_folder_is_read_in_layer_order() {
    let (_dir, path) = folder();
    let list: [(&str, &[usize], StoredType); 7] = [
        HEAD,
        ("model.layers.10.mlp.up_proj.weight", &[2, 4], StoredType::BF16),
        ("model.layers.2.mlp.up_proj.weight", &[2, 4], StoredType::BF16),
        NORM,
        ("model.layers.2.self_attn.q_proj.weight", &[4, 4], StoredType::BF16),
        ("model.embed_tokens.weight", &[6, 4], StoredType::BF16),
        ("model.layers.2.self_attn.rotary_emb.inv_freq", &[2], StoredType::F32),
    ];
    weights(&path.join("model.safetensors"), &list, 0.0);
    fs::write(path.join("tokenizer.json"), "{}").unwrap();
    fs::write(path.join("tokenizer_config.json"), r#"{"eos_token": "</s>"}"#).unwrap();
    fs::write(path.join("chat_template.jinja"), "{{ x }}").unwrap();
    let model = ModelSource::open(&path).unwrap();
    let names: Vec<&str> = model.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "model.embed_tokens.weight",
            "model.layers.2.self_attn.q_proj.weight",
            "model.layers.2.mlp.up_proj.weight",
            "model.layers.2.self_attn.rotary_emb.inv_freq",
            "model.layers.10.mlp.up_proj.weight",
            "model.norm.weight",
            "lm_head.weight",
        ]
    );
    assert_eq!(model.dtype(), StoredType::BF16);
    assert_eq!(model.save_dtype(), StoredType::BF16);
    assert_eq!(model.config()["model_type"], "llama");
    assert_eq!(model.bytes_on_disk(), fs::metadata(path.join("model.safetensors")).unwrap().len());
    let mut rows = [0f32; 8];
    model.read_rows("lm_head.weight", 2..4, &mut rows).unwrap();
    assert_eq!(rows, [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
    assert_eq!(model.read_rows("lm_head.weight", 2..5, &mut rows).unwrap_err().code, "model.range");
    let mut bits = [0u16; 8];
    assert!(model.copy_rows("lm_head.weight", 2..4, StoredType::BF16, &mut bits).unwrap());
    assert_eq!(bits.map(|b| f32::from_bits(u32::from(b) << 16)), rows);
    assert!(!model.copy_rows("lm_head.weight", 2..4, StoredType::F16, &mut bits).unwrap());
    assert!(!model.copy_rows("model.norm.weight", 0..4, StoredType::BF16, &mut bits[..4]).unwrap());
    let beyond = model.copy_rows("lm_head.weight", 5..7, StoredType::BF16, &mut bits);
    assert_eq!(beyond.unwrap_err().code, "model.range");
    assert_eq!(model.read_rows("lm_head.weight", 5..7, &mut rows).unwrap_err().code, "model.range");
    assert_eq!(model.read_f32("lm_head.bias", 0, &mut rows).unwrap_err().code, "model.missing_tensor");
    let TokenizerSource::HfJson(tokenizer) = model.tokenizer() else { panic!("{:?}", model.tokenizer()) };
    assert_eq!(tokenizer.config, Some(json!({"eos_token": "</s>"})));
    assert_eq!(tokenizer.template.as_deref(), Some("{{ x }}"));
    let carried: Vec<_> = model.carried_files().iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(carried, ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]);
    assert_eq!(model.inputs().len(), 5);
}

#[test]
fn tensors_are_lent_where_they_lie_as_they_are_computed_with() {
    let (_dir, path) = folder();
    let file = path.join("model.safetensors");
    weights(&file, &[NORM, HEAD], 1.0);
    let model = ModelSource::open(&path).unwrap();
    assert!(model.lies_as("lm_head.weight", StoredType::BF16) && model.lies_as("model.norm.weight", StoredType::F32));
    for (name, other) in [("lm_head.weight", StoredType::F32), ("model.norm.weight", StoredType::F16)] {
        assert!(!model.lies_as(name, other) && model.map_tensor(name, other).unwrap().is_none());
    }
    assert!(!model.lies_as("lm_head.bias", StoredType::BF16));
    assert_eq!(model.map_tensor("lm_head.bias", StoredType::F32).unwrap_err().code, "model.missing_tensor");
    let norm = model.map_tensor("model.norm.weight", StoredType::F32).unwrap().unwrap();
    let values = [1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    assert_eq!(norm.as_ref(), values);
    assert_eq!(norm.as_ref().as_ptr().align_offset(4), 0);

    // A save over the folder makes new files: what is mapped is the old one, to the end.
    let written = crate::store::AtomicFolder::create(&path, true).unwrap();
    fill(written.file("model.safetensors").unwrap(), &[NORM, HEAD], 50.0);
    written.text("config.json", br#"{"model_type": "llama"}"#).unwrap();
    written.commit().unwrap();
    assert_eq!(norm.as_ref(), values);
    let anew = ModelSource::open(&path).unwrap();
    assert_eq!(
        anew.map_tensor("model.norm.weight", StoredType::F32).unwrap().unwrap().as_ref()[..4],
        50f32.to_le_bytes()
    );

    // Cut short after it was opened: an error before anything is mapped.
    let cut = fs::metadata(&file).unwrap().len() - 1;
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(cut).unwrap();
    let last = anew.tensors().iter().max_by_key(|t| t.offset).unwrap();
    assert_eq!(anew.map_tensor(&last.name, last.dtype).unwrap_err().code, "file.changed");
}

#[test]
fn what_lies_between_two_values_is_not_lent() {
    let (_dir, path) = folder();
    let header = r#"{"model.norm.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    for (pad, aligned) in [(0, false), (1, false), (2, true), (4, false)] {
        let header = format!("{header}{}", " ".repeat(pad));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        fs::write(path.join("model.safetensors"), bytes).unwrap();
        let model = ModelSource::open(&path).unwrap();
        assert_eq!(model.lies_as("model.norm.weight", StoredType::F32), aligned, "{}", header.len() % 4);
        assert_eq!(model.map_tensor("model.norm.weight", StoredType::F32).unwrap().is_some(), aligned);
    }
}

#[test]
fn names_without_model_are_completed_and_may_not_clash() {
    let (_dir, path) = folder();
    let file = path.join("model.safetensors");
    weights(
        &file,
        &[("layers.0.mlp.up_proj.weight", &[2, 4], StoredType::F16), ("norm.weight", &[4], StoredType::F16)],
        0.0,
    );
    let model = ModelSource::open(&path).unwrap();
    assert_eq!(model.get("model.layers.0.mlp.up_proj.weight").unwrap().stored_name, "layers.0.mlp.up_proj.weight");
    assert!(model.has("model.norm.weight"));
    weights(&file, &[("norm.weight", &[4], StoredType::F16), NORM], 0.0);
    assert_eq!(code(&path), "model.duplicate_tensor");
}

#[test]
fn integers_are_listed_and_not_read() {
    let (_dir, path) = folder();
    let header = br#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2, 3, 4]].concat();
    fs::write(path.join("model.safetensors"), bytes).unwrap();
    let model = ModelSource::open(&path).unwrap();
    assert_eq!(model.get("w").unwrap().dtype, StoredType::U8);
    assert_eq!(model.read_f32("w", 0, &mut [0.0; 4]).unwrap_err().code, "model.unreadable_type");
}

fn index(path: &Path, map: serde_json::Value) {
    fs::write(path.join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).unwrap();
}

#[test]
fn shards_are_read_through_the_index() {
    let (_dir, path) = folder();
    weights(&path.join("a.safetensors"), &[NORM], 10.0);
    weights(&path.join("b.safetensors"), &[HEAD], 20.0);
    index(&path, json!({ "model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors" }));
    let model = ModelSource::open(&path).unwrap();
    let mut out = [0f32; 2];
    model.read_f32("lm_head.weight", 22, &mut out).unwrap();
    assert_eq!(out, [42.0, 43.0]);
    model.read_f32("model.norm.weight", 1, &mut out).unwrap();
    assert_eq!(out, [11.0, 12.0]);
    assert_eq!(model.weight_files().len(), 2);
}

#[test]
fn broken_indices_are_refused() {
    let (dir, path) = folder();
    weights(&path.join("a.safetensors"), &[NORM], 0.0);
    weights(&dir.path().join("evil.safetensors"), &[NORM], 0.0);
    let absolute = dir.path().join("evil.safetensors");
    for evil in ["../evil.safetensors", absolute.to_str().unwrap(), "", ".", "..", "x/../a.safetensors", "a\\b"] {
        index(&path, json!({ "model.norm.weight": evil }));
        assert_eq!(code(&path), "model.index", "{evil}");
    }
    index(&path, json!({}));
    assert_eq!(code(&path), "model.index");
    index(&path, json!({ "model.norm.weight": 1 }));
    assert_eq!(code(&path), "model.index");
    fs::write(path.join("model.safetensors.index.json"), "{").unwrap();
    assert_eq!(code(&path), "json.syntax");
    fs::write(path.join("model.safetensors.index.json"), "{}").unwrap();
    assert_eq!(code(&path), "model.index");
    index(&path, json!({ "model.norm.weight": "a.safetensors", "lm_head.weight": "gone.safetensors" }));
    let fault = ModelSource::open(&path).unwrap_err();
    assert_eq!(fault.code, "model.missing_shard");
    assert!(fault.notes[0].contains("gone.safetensors"));
    index(&path, json!({ "model.norm.weight": "a.safetensors", "lm_head.weight": "a.safetensors" }));
    let fault = ModelSource::open(&path).unwrap_err();
    assert_eq!(fault.code, "model.missing_tensor");
    assert!(fault.notes[0].contains("lm_head.weight"));
    weights(&path.join("b.safetensors"), &[NORM, HEAD], 0.0);
    index(&path, json!({ "model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors" }));
    assert_eq!(code(&path), "model.duplicate_tensor");
}

#[test]
fn a_folder_that_is_no_model_says_what_it_is() {
    let (_dir, path) = folder();
    assert_eq!(code(&path), "model.no_weights");
    fs::write(path.join("pytorch_model.bin"), "x").unwrap();
    let fault = ModelSource::open(&path).unwrap_err();
    assert_eq!(fault.code, "model.pickle");
    assert!(fault.help.unwrap().contains("save_pretrained"));
    fs::write(path.join("model-00001-of-00002.safetensors"), "x").unwrap();
    assert_eq!(code(&path), "model.no_weights");
    fs::write(path.join("model-00002-of-00002.safetensors"), "x").unwrap();
    assert_eq!(code(&path), "model.no_index");
    fs::remove_file(path.join("config.json")).unwrap();
    assert_eq!(code(&path), "config.missing");
    fs::write(path.join("adapter_config.json"), "{}").unwrap();
    assert!(ModelSource::open(&path).unwrap_err().notes[0].contains("adapter"));
    let (_dir, path) = folder();
    fs::write(path.join("model.safetensors"), "").unwrap();
    assert_eq!(code(&path), "safetensors.truncated");
    assert_eq!(code(&path.join("model.safetensors")), "model.not_a_model");
    fs::write(path.join("config.json"), "[]").unwrap();
    assert_eq!(code(&path), "json.not_an_object");
    fs::write(path.join("notes.txt"), "hello, world").unwrap();
    assert_eq!(code(&path.join("notes.txt")), "gguf.bad_magic");
}

#[test]
fn a_wrong_path_gets_the_near_names() {
    let (dir, _path) = folder();
    let fault = ModelSource::open(&dir.path().join("tniy")).unwrap_err();
    assert_eq!(fault.code, "file.missing");
    assert!(fault.help.unwrap().contains("tiny"));
    assert_eq!(ModelSource::open(&dir.path().join("mistral")).unwrap_err().help, None);
    let hub = ModelSource::open(Path::new("some-owner-nobody-is/llama")).unwrap_err();
    assert!(hub.help.unwrap().contains("hf download some-owner-nobody-is/llama"));
}

#[test]
fn a_gguf_reads_as_a_folder_does() {
    let dir = tempdir().unwrap();
    let model = ModelSource::open(&tiny().write(&dir)).unwrap();
    assert_eq!(model.config()["num_attention_heads"], 2);
    assert!(matches!(model.tokenizer(), TokenizerSource::Missing(_)));
    // Query rows: two heads of four; the file holds rows 0 2 1 3 of each head.
    let row = |r: usize| (0..8).map(|c| (r * 8 + c) as f32).collect::<Vec<_>>();
    let expected: Vec<f32> = [0, 2, 1, 3, 4, 6, 5, 7].into_iter().flat_map(row).collect();
    let name = "model.layers.0.self_attn.q_proj.weight";
    let mut whole = [0f32; 64];
    model.read_f32(name, 0, &mut whole).unwrap();
    assert_eq!(whole[..], expected);
    for first in 0..64 {
        for end in first..=64 {
            let mut part = vec![0f32; end - first];
            model.read_f32(name, first as u64, &mut part).unwrap();
            assert_eq!(part[..], expected[first..end], "{first}..{end}");
        }
    }
    let mut keys = [0f32; 32];
    model.read_rows("model.layers.0.self_attn.k_proj.weight", 0..4, &mut keys).unwrap();
    assert_eq!(keys[..], [0, 2, 1, 3].into_iter().flat_map(row).collect::<Vec<_>>());
    let mut bias = [0f32; 8];
    model.read_f32("model.layers.0.self_attn.q_proj.bias", 0, &mut bias).unwrap();
    assert_eq!(bias, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    // What the heads do not touch stays as it is.
    let mut down = [0f32; 48];
    model.read_f32("model.layers.0.mlp.down_proj.weight", 0, &mut down).unwrap();
    assert_eq!(down[7], 7.0);
    assert_eq!(model.read_f32(name, 60, &mut [0.0; 5]).unwrap_err().code, "model.range");
}

#[test]
fn a_gguf_whose_heads_do_not_divide_is_refused() {
    let dir = tempdir().unwrap();
    let builder = tiny().f32s("blk.1.attn_q.weight", &[6, 8], &[0.0; 48]);
    assert_eq!(code(&builder.write(&dir)), "gguf.shape");
}
