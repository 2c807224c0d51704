use std::fs;

use serde_json::json;
use tempfile::tempdir;

use super::*;
use crate::store::{ModelSource, StoredType};

fn plan(max_shard: u64) -> ModelPlan {
    let tensors = vec![
        TensorInfo::new("model.embed_tokens.weight", &[10, 4], StoredType::BF16),
        TensorInfo::new("model.layers.0.mlp.up_proj.weight", &[8, 4], StoredType::BF16),
        TensorInfo::new("model.layers.0.mlp.down_proj.weight", &[4, 8], StoredType::BF16),
        TensorInfo::new("model.norm.weight", &[4], StoredType::F32),
        TensorInfo::new("lm_head.weight", &[10, 4], StoredType::F16),
    ];
    let config = json!({ "model_type": "llama", "hidden_size": 4, "note": "é" });
    ModelPlan { max_shard, ..ModelPlan::new(tensors, config) }
}

fn fill(writer: &mut ModelWriter, plan: &ModelPlan) -> Result<()> {
    for (k, info) in plan.tensors.iter().enumerate() {
        let values: Vec<f32> = (0..info.elements()?).map(|i| (k as u64 * 100 + i) as f32).collect();
        writer.next_tensor(&info.name, |sink| values.chunks(7).try_for_each(|part| sink.write_f32(part)))?;
    }
    Ok(())
}

fn size_of(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn what_is_planned_is_written_and_read_back() {
    let dir = tempdir().unwrap();
    let template = dir.path().join("chat_template.jinja");
    fs::write(&template, "{{ messages }}").unwrap();
    let tokenizer = dir.path().join("tokenizer.json");
    fs::write(&tokenizer, "the source's").unwrap();
    for (i, max) in [DEFAULT_SHARD, 160, 144, 64, 1].into_iter().enumerate() {
        let mut plan = plan(max);
        plan.carried = vec![template.clone(), tokenizer.clone()];
        plan.texts = vec![("tokenizer.json".into(), b"{}".to_vec())];
        let path = dir.path().join(format!("out{i}"));
        let mut writer = ModelWriter::create(&path, false, &plan).unwrap();
        fill(&mut writer, &plan).unwrap();
        writer.commit().unwrap();
        assert_eq!(size_of(&path), plan.planned_bytes().unwrap(), "max_shard {max}");
        let shards = fs::read_dir(&path)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "safetensors"));
        assert_eq!(shards.count(), [1, 2, 3, 5, 5][i], "max_shard {max}");
        let model = ModelSource::open(&path).unwrap();
        assert_eq!(model.config()["note"], "é");
        let mut out = [0f32; 2];
        for (k, info) in plan.tensors.iter().enumerate() {
            assert_eq!(model.get(&info.name).unwrap().dtype, info.dtype);
            model.read_f32(&info.name, 2, &mut out).unwrap();
            assert_eq!(out, [k as f32 * 100.0 + 2.0, k as f32 * 100.0 + 3.0].map(|x| round(info.dtype, x)));
        }
        assert_eq!(fs::read(path.join("tokenizer.json")).unwrap(), b"{}");
        assert_eq!(fs::read(path.join("chat_template.jinja")).unwrap(), b"{{ messages }}");
    }
}

fn round(dtype: StoredType, x: f32) -> f32 {
    if dtype == StoredType::BF16 { half::bf16::from_f32(x).to_f32() } else { x }
}

#[test]
fn shards_are_named_and_indexed_as_the_field_does() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("out");
    let plan = plan(160);
    let mut writer = ModelWriter::create(&path, false, &plan).unwrap();
    fill(&mut writer, &plan).unwrap();
    writer.commit().unwrap();
    let index: Value = serde_json::from_slice(&fs::read(path.join("model.safetensors.index.json")).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], 80 + 64 + 64 + 16 + 80);
    assert_eq!(index["weight_map"]["model.embed_tokens.weight"], "model-00001-of-00002.safetensors");
    assert_eq!(index["weight_map"]["lm_head.weight"], "model-00002-of-00002.safetensors");
}

#[test]
fn a_failure_at_any_tensor_leaves_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("out");
    let plan = plan(100);
    for at in 0..plan.tensors.len() {
        let mut writer = ModelWriter::create(&path, false, &plan).unwrap();
        for (k, info) in plan.tensors.iter().enumerate() {
            let values = vec![0f32; info.elements().unwrap() as usize];
            let result = writer.next_tensor(&info.name, |sink| {
                if k == at { Err(Fault::new("test", "no")) } else { sink.write_f32(&values) }
            });
            if k == at {
                assert_eq!(result.unwrap_err().code, "test");
                break;
            }
            result.unwrap();
        }
        assert_eq!(writer.next_tensor("lm_head.weight", |_| Ok(())).unwrap_err().code, "output.failed");
        assert_eq!(writer.commit().unwrap_err().code, "output.failed");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "at {at}");
    }
}

#[test]
fn a_writer_holds_its_caller_to_the_plan() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("out");
    let plan = plan(DEFAULT_SHARD);
    let start = || ModelWriter::create(&path, false, &plan).unwrap();
    assert_eq!(start().next_tensor("lm_head.weight", |_| Ok(())).unwrap_err().code, "output.order");
    assert_eq!(start().commit().unwrap_err().code, "output.order");
    let mut writer = start();
    fill(&mut writer, &plan).unwrap();
    assert_eq!(writer.next_tensor("more", |_| Ok(())).unwrap_err().code, "output.order");
    writer.commit().unwrap();
    assert_eq!(ModelWriter::create(&path, false, &plan).unwrap_err().code, "output.exists");
    let mut writer = ModelWriter::create(&path, true, &plan).unwrap();
    fill(&mut writer, &plan).unwrap();
    writer.commit().unwrap();
    let empty = ModelPlan::new(Vec::new(), json!({}));
    assert_eq!(empty.planned_bytes().unwrap_err().code, "output.empty");
    let mut gone = plan.clone();
    gone.carried = vec![dir.path().join("gone.json")];
    assert_eq!(gone.planned_bytes().unwrap_err().code, "file.missing");
    let mut evil = plan.clone();
    evil.texts = vec![("../evil".into(), vec![])];
    assert_eq!(ModelWriter::create(&dir.path().join("new"), false, &evil).unwrap_err().code, "output.name");
    assert!(!dir.path().join("new").exists());
}

#[test]
fn an_index_written_as_text_is_the_json_it_stands_for() {
    let map = BTreeMap::from([("model.\"odd\"\n", "a.safetensors"), ("model.a", "b.safetensors")]);
    let value = json!({ "metadata": { "total_size": 7 }, "weight_map": map });
    assert_eq!(index(7, &map), pretty(&value));
}
