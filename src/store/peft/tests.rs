use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::store::StoredType;

fn config() -> AdapterConfig {
    AdapterConfig {
        rank: 2,
        alpha: 16.0,
        targets: Targets::Names(vec!["v_proj".into(), "q_proj".into()]),
        dropout: 0.05,
        rslora: false,
        base_model: Some("models/tiny".into()),
    }
}

fn shape(module: &str) -> AdapterShape {
    AdapterShape { module: module.into(), inputs: 3, outputs: 4 }
}

fn plan() -> AdapterPlan {
    let modules =
        ["model.layers.0.self_attn.q_proj", "model.layers.10.self_attn.v_proj", "model.layers.2.self_attn.v_proj"];
    AdapterPlan::new(config(), modules.into_iter().map(shape).collect())
}

fn written(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("adapter");
    let plan = plan();
    let mut writer = AdapterWriter::create(&path, true, &plan).unwrap();
    for (k, m) in plan.modules.iter().enumerate() {
        let values: Vec<f32> = (0..8).map(|i| (k * 10 + i) as f32 + 0.1).collect();
        writer.module(&m.module, &values[..6], &values).unwrap();
    }
    writer.commit().unwrap();
    path
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempdir().unwrap();
    let path = written(&dir);
    let size: u64 = fs::read_dir(&path).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(size, plan().planned_bytes().unwrap());
    let adapter = AdapterSource::open(&path).unwrap();
    let mut expected = config();
    expected.targets = Targets::Names(vec!["q_proj".into(), "v_proj".into()]);
    assert_eq!(*adapter.config(), expected);
    assert_eq!(adapter.config().scale(), 8.0);
    let modules: Vec<&str> = adapter.modules().iter().map(|m| m.module.as_str()).collect();
    let order =
        ["model.layers.0.self_attn.q_proj", "model.layers.2.self_attn.v_proj", "model.layers.10.self_attn.v_proj"];
    assert_eq!(modules, order);
    let last = &adapter.modules()[2];
    assert_eq!((last.inputs, last.outputs), (3, 4));
    let mut b = [0f32; 8];
    adapter.read(last, Half::B, &mut b).unwrap();
    assert_eq!(b[7], 17.1);
    let mut a = [0f32; 6];
    adapter.read(last, Half::A, &mut a).unwrap();
    assert_eq!(a[0], 10.1);
    assert_eq!(adapter.read(last, Half::A, &mut b).unwrap_err().code, "model.range");
}

#[test]
fn files_have_the_names_and_keys_that_peft_loads() {
    let dir = tempdir().unwrap();
    let path = written(&dir);
    let bytes = fs::read(path.join("adapter_model.safetensors")).unwrap();
    let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let a = theirs.tensor("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight").unwrap();
    assert_eq!(a.shape(), [2, 3]);
    let b = theirs.tensor("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight").unwrap();
    assert_eq!(b.shape(), [4, 2]);
    let json: Value = serde_json::from_slice(&fs::read(path.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(json["peft_type"], "LORA");
    assert_eq!(json["task_type"], "CAUSAL_LM");
    assert_eq!(json["target_modules"], json!(["q_proj", "v_proj"]));
    assert_eq!(json["inference_mode"], true);
    assert_eq!(json["lora_alpha"].as_u64(), Some(16));
}

#[test]
fn the_three_forms_of_targets_and_rslora_are_read() {
    let dir = tempdir().unwrap();
    let path = written(&dir);
    let read = |key: &str, value: Value| {
        edit(&path, key, Some(value));
        AdapterSource::open(&path).map(|a| a.config().clone())
    };
    assert_eq!(read("target_modules", json!("all-linear")).unwrap().targets, Targets::AllLinear);
    assert_eq!(read("target_modules", json!(".*proj")).unwrap().targets, Targets::Pattern(".*proj".into()));
    assert_eq!(read("target_modules", json!([])).unwrap_err().code, "config.bad_key");
    assert_eq!(read("target_modules", json!([1])).unwrap_err().code, "config.bad_key");
    assert_eq!(read("target_modules", json!(["q_proj"])).unwrap().scale(), 8.0);
    assert_eq!(read("use_rslora", json!(true)).unwrap().scale(), 16.0 / 2f64.sqrt());
    assert_eq!(read("lora_alpha", json!(0.5)).unwrap().alpha, 0.5);
    assert_eq!(read("lora_dropout", json!(1.5)).unwrap_err().code, "config.bad_key");
}

/// Sets or removes a key of the adapter's settings.
fn edit(path: &Path, key: &str, value: Option<Value>) {
    let file = path.join("adapter_config.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    match value {
        Some(value) => json[key] = value,
        None => drop(json.as_object_mut().unwrap().remove(key)),
    }
    fs::write(&file, json.to_string()).unwrap();
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (key, value) in [
        ("use_dora", json!(true)),
        ("bias", json!("all")),
        ("modules_to_save", json!(["lm_head"])),
        ("rank_pattern", json!({"q_proj": 4})),
        ("alpha_pattern", json!({"q_proj": 4})),
        ("fan_in_fan_out", json!(true)),
        ("layer_replication", json!([[0, 2]])),
        ("init_lora_weights", json!("pissa_niter_16")),
        ("use_new_thing", json!(true)),
        ("kasa_config", json!({"beta": 1})),
        ("peft_type", json!("IA3")),
    ] {
        let dir = tempdir().unwrap();
        let path = written(&dir);
        edit(&path, key, Some(value));
        let fault = AdapterSource::open(&path).unwrap_err();
        assert_eq!(fault.code, "peft.unsupported", "{key}");
        assert!(key == "peft_type" || fault.message.contains(key), "{fault}");
    }
    let dir = tempdir().unwrap();
    let path = written(&dir);
    for (key, value) in [
        ("use_new_thing", json!(false)),
        ("kasa_config", json!(null)),
        ("megatron_config", json!({"a": 1})),
        ("exclude_modules", json!(["lm_head"])),
        ("peft_version", json!("0.21.2")),
    ] {
        edit(&path, key, Some(value));
    }
    assert_eq!(AdapterSource::open(&path).unwrap().modules().len(), 3);
    for key in ["peft_type", "r", "lora_alpha", "target_modules"] {
        let dir = tempdir().unwrap();
        let path = written(&dir);
        edit(&path, key, None);
        assert_eq!(AdapterSource::open(&path).unwrap_err().code, "config.missing_key", "{key}");
    }
    for (key, value) in
        [("r", json!(0)), ("r", json!(-1)), ("r", json!("8")), ("lora_alpha", json!("x")), ("use_rslora", json!(1))]
    {
        let dir = tempdir().unwrap();
        let path = written(&dir);
        edit(&path, key, Some(value));
        assert_eq!(AdapterSource::open(&path).unwrap_err().code, "config.bad_key", "{key}");
    }
    let dir = tempdir().unwrap();
    let path = written(&dir);
    edit(&path, "r", Some(json!(4)));
    assert_eq!(AdapterSource::open(&path).unwrap_err().code, "peft.shape");
}

/// Replaces the weights by tensors of these names and shapes.
fn weights(path: &Path, tensors: &[(&str, &[usize])]) {
    use crate::store::safetensors::SafetensorsWriter;
    use crate::store::{AtomicFile, TensorInfo};
    let list: Vec<TensorInfo> = tensors.iter().map(|(n, s)| TensorInfo::new(*n, s, StoredType::F32)).collect();
    let file = AtomicFile::create(&path.join("adapter_model.safetensors"), true).unwrap();
    let mut writer = SafetensorsWriter::create(file, &list, &[]).unwrap();
    for info in &list {
        writer.tensor(&info.name, |s| s.write_f32(&vec![0.0; info.elements()? as usize])).unwrap();
    }
    writer.commit().unwrap();
}

#[test]
fn keys_of_other_forms_are_refused() {
    let dir = tempdir().unwrap();
    let path = written(&dir);
    let code = |tensors: &[(&str, &[usize])]| {
        weights(&path, tensors);
        AdapterSource::open(&path).map(|_| ()).map_err(|f| f.code)
    };
    let a = ("base_model.model.m.q.lora_A.weight", &[2usize, 3][..]);
    let b = ("base_model.model.m.q.lora_B.weight", &[4usize, 2][..]);
    assert_eq!(code(&[a, b]), Ok(()));
    assert_eq!(code(&[a]), Err("peft.half_missing"));
    assert_eq!(code(&[b]), Err("peft.half_missing"));
    assert_eq!(code(&[]), Err("peft.no_adapter"));
    assert_eq!(code(&[a, ("base_model.model.m.q.lora_B.weight", &[4, 3])]), Err("peft.shape"));
    assert_eq!(code(&[a, ("base_model.model.m.q.lora_B.weight", &[8])]), Err("peft.shape"));
    for key in [
        "model.layers.0.q.lora_A.weight",
        "base_model.model.m.q.lora_magnitude_vector",
        "base_model.model.m.lora_embedding_A",
        "base_model.model.m.q.weight",
        "base_model.model..lora_A.weight",
        "base_model.model.lora_A.weight",
    ] {
        assert_eq!(code(&[a, b, (key, &[2])]), Err("peft.unknown_key"), "{key}");
    }
}

#[test]
fn folders_that_are_no_adapter_say_so() {
    let dir = tempdir().unwrap();
    let path = written(&dir);
    let code = |path: &Path| AdapterSource::open(path).unwrap_err().code;
    let fault = AdapterSource::open(&dir.path().join("adaptor")).unwrap_err();
    assert_eq!(fault.code, "file.missing");
    assert!(fault.help.unwrap().contains("adapter"));
    assert_eq!(code(&path.join("adapter_config.json")), "peft.no_adapter");
    assert_eq!(code(dir.path()), "peft.no_adapter");
    fs::rename(path.join("adapter_model.safetensors"), path.join("adapter_model.bin")).unwrap();
    assert_eq!(code(&path), "peft.pickle");
    fs::remove_file(path.join("adapter_model.bin")).unwrap();
    assert_eq!(code(&path), "file.missing");
    fs::write(path.join("adapter_config.json"), "nope").unwrap();
    assert_eq!(code(&path), "json.syntax");
}
