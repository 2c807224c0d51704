use std::path::PathBuf;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::store::StoredType;
use crate::text::Result;

/// Writes GGUF files, sound ones and others.
#[derive(Clone)]
pub(in crate::store) struct Builder {
    pub version: u32,
    values: Vec<u8>,
    value_count: u64,
    infos: Vec<(String, Vec<u64>, u32, Option<u64>)>,
    data: Vec<u8>,
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

impl Builder {
    pub fn new() -> Self {
        Builder { version: 3, values: Vec::new(), value_count: 0, infos: Vec::new(), data: Vec::new() }
    }

    pub fn raw(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
        self.values.extend(string(key));
        self.values.extend(kind.to_le_bytes());
        self.values.extend_from_slice(bytes);
        self.value_count += 1;
        self
    }

    pub fn int(self, key: &str, n: u32) -> Self {
        self.raw(key, 4, &n.to_le_bytes())
    }

    pub fn float(self, key: &str, x: f32) -> Self {
        self.raw(key, 6, &x.to_le_bytes())
    }

    pub fn bool(self, key: &str, b: bool) -> Self {
        self.raw(key, 7, &[u8::from(b)])
    }

    pub fn text(self, key: &str, text: &str) -> Self {
        self.raw(key, 8, &string(text))
    }

    pub fn texts(self, key: &str, texts: &[&str]) -> Self {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        bytes.extend((texts.len() as u64).to_le_bytes());
        bytes.extend(texts.iter().flat_map(|t| string(t)));
        self.raw(key, 9, &bytes)
    }

    /// `shape` slowest dimension first.
    pub fn tensor(mut self, name: &str, shape: &[u64], ggml_type: u32, bytes: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        let offset = self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        self.infos.push((name.into(), shape.to_vec(), ggml_type, Some(offset)));
        self
    }

    pub fn f32s(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, shape, 0, &bytes)
    }

    pub fn info_at(mut self, name: &str, shape: &[u64], ggml_type: u32, offset: u64) -> Self {
        self.infos.push((name.into(), shape.to_vec(), ggml_type, Some(offset)));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.infos.len() as u64).to_le_bytes());
        out.extend(self.value_count.to_le_bytes());
        out.extend(&self.values);
        for (name, shape, ggml_type, offset) in &self.infos {
            out.extend(string(name));
            out.extend((shape.len() as u32).to_le_bytes());
            out.extend(shape.iter().rev().flat_map(|d| d.to_le_bytes()));
            out.extend(ggml_type.to_le_bytes());
            out.extend(offset.unwrap_or(0).to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }

    pub fn write(&self, dir: &TempDir) -> PathBuf {
        let path = dir.path().join("x.gguf");
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

/// The head of a llama of two heads over one key-value head, four dimensions each.
pub(in crate::store) fn tiny_head() -> Builder {
    Builder::new()
        .text("general.architecture", "llama")
        .int("llama.embedding_length", 8)
        .int("llama.block_count", 1)
        .int("llama.feed_forward_length", 6)
        .int("llama.attention.head_count", 2)
        .int("llama.attention.head_count_kv", 1)
        .int("llama.context_length", 64)
        .float("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .float("llama.rope.freq_base", 100_000.0)
}

pub(in crate::store) fn tiny() -> Builder {
    let ramp = |n: usize| (0..n).map(|i| i as f32).collect::<Vec<f32>>();
    tiny_head()
        .f32s("token_embd.weight", &[5, 8], &ramp(40))
        .f32s("output_norm.weight", &[8], &ramp(8))
        .f32s("blk.0.attn_q.weight", &[8, 8], &ramp(64))
        .f32s("blk.0.attn_k.weight", &[4, 8], &ramp(32))
        .f32s("blk.0.attn_q.bias", &[8], &ramp(8))
        .f32s("blk.0.ffn_down.weight", &[8, 6], &ramp(48))
}

#[test]
fn every_block_type_agrees_with_candle_to_the_bit() {
    let types = [
        (GgmlDType::Q4_0, 2, StoredType::Q4_0),
        (GgmlDType::Q4_1, 3, StoredType::Q4_1),
        (GgmlDType::Q5_0, 6, StoredType::Q5_0),
        (GgmlDType::Q5_1, 7, StoredType::Q5_1),
        (GgmlDType::Q8_0, 8, StoredType::Q8_0),
        (GgmlDType::Q4K, 12, StoredType::Q4K),
        (GgmlDType::Q5K, 13, StoredType::Q5K),
        (GgmlDType::Q6K, 14, StoredType::Q6K),
        (GgmlDType::F16, 1, StoredType::F16),
        (GgmlDType::BF16, 30, StoredType::BF16),
    ];
    let (rows, cols) = (130usize, 512usize);
    let values: Vec<f32> =
        (0..rows * cols).map(|i| ((i as f32) * 1.37).sin() * (1.0 + (i % 977) as f32 / 300.0) - 0.3).collect();
    let source = Tensor::from_slice(&values, (rows, cols), &Device::Cpu).unwrap();
    let dir = tempdir().unwrap();
    for (theirs, id, ours) in types {
        let quantised = QTensor::quantize(&source, theirs).unwrap();
        let raw = quantised.data().unwrap();
        let expected = quantised.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let path = Builder::new().tensor("w", &[rows as u64, cols as u64], id, &raw).write(&dir);
        let file = GgufFile::open(&path).unwrap();
        let tensor = &file.tensors()[0];
        assert_eq!((tensor.dtype, tensor.bytes), (ours, raw.len() as u64));
        let mut whole = vec![0f32; rows * cols];
        file.read_f32(tensor, 0, &mut whole).unwrap();
        for (i, (x, y)) in expected.iter().zip(&whole).enumerate() {
            assert_eq!(x.to_bits(), y.to_bits(), "{ours} at {i}: {x} and {y}");
        }
        // A range that starts and ends inside blocks.
        let mut part = vec![0f32; 1001];
        file.read_f32(tensor, 333, &mut part).unwrap();
        assert_eq!(part[..], whole[333..1334], "{ours}");
    }
}

#[test]
fn metadata_of_every_kind_is_read() {
    let dir = tempdir().unwrap();
    let nested =
        [&9u32.to_le_bytes()[..], &1u64.to_le_bytes(), &0u32.to_le_bytes(), &2u64.to_le_bytes(), &[1, 2]].concat();
    let mut builder = Builder::new()
        .raw("u8", 0, &[200])
        .raw("i8", 1, &[200])
        .raw("u16", 2, &60000u16.to_le_bytes())
        .raw("i16", 3, &(-3i16).to_le_bytes())
        .int("u32", 7)
        .raw("i32", 5, &(-7i32).to_le_bytes())
        .float("f32", 0.5)
        .bool("bool", true)
        .text("text", "ünï")
        .raw("nested", 9, &nested)
        .raw("u64", 10, &u64::MAX.to_le_bytes())
        .raw("i64", 11, &i64::MIN.to_le_bytes())
        .raw("f64", 12, &0.25f64.to_le_bytes());
    for version in [2, 3] {
        builder.version = version;
        let file = GgufFile::open(&builder.write(&dir)).unwrap();
        let get = |key: &str| file.value(key).unwrap().clone();
        assert_eq!(get("u8"), GgufValue::Unsigned(200));
        assert_eq!(get("i8"), GgufValue::Signed(-56));
        assert_eq!(get("u16"), GgufValue::Unsigned(60000));
        assert_eq!(get("i16").as_u64(), None);
        assert_eq!(get("i32"), GgufValue::Signed(-7));
        assert_eq!(get("bool").as_bool(), Some(true));
        assert_eq!(get("text").as_str(), Some("ünï"));
        let inner = GgufValue::Array(vec![GgufValue::Unsigned(1), GgufValue::Unsigned(2)]);
        assert_eq!(get("nested"), GgufValue::Array(vec![inner]));
        assert_eq!(get("u64"), GgufValue::Unsigned(u64::MAX));
        assert_eq!(get("i64"), GgufValue::Signed(i64::MIN));
        assert_eq!(get("f64").as_f64(), Some(0.25));
    }
}

fn open(bytes: &[u8]) -> Result<GgufFile> {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x.gguf");
    std::fs::write(&path, bytes).unwrap();
    GgufFile::open(&path)
}

#[test]
fn every_truncation_is_refused() {
    let bytes = tiny().texts("tokenizer.ggml.tokens", &["a", "b"]).bytes();
    for n in 0..bytes.len() {
        let fault = open(&bytes[..n]).unwrap_err();
        assert_eq!(fault.code, "gguf.truncated", "at {n}: {fault}");
    }
    open(&bytes).unwrap();
}

#[test]
fn broken_files_are_refused_by_name() {
    let version = |v: u32| Builder { version: v, ..Builder::new() };
    let deep = {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            bytes.extend([&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat());
        }
        bytes
    };
    let huge_array = [&8u32.to_le_bytes()[..], &(1u64 << 60).to_le_bytes()].concat();
    let lying_array = [&8u32.to_le_bytes()[..], &1_000_000u64.to_le_bytes()].concat();
    let cases = [
        ("gguf.bad_magic", b"GGML0000000000000000000000".to_vec()),
        ("gguf.version", version(1).bytes()),
        ("gguf.version", version(4).bytes()),
        ("gguf.big_endian", version(3u32.swap_bytes()).bytes()),
        ("gguf.value", Builder::new().raw("k", 13, &[]).bytes()),
        ("gguf.value", Builder::new().raw("k", 7, &[2]).bytes()),
        ("gguf.value", Builder::new().raw("k", 9, &deep).bytes()),
        ("gguf.value", Builder::new().raw("k", 9, &huge_array).bytes()),
        ("gguf.truncated", Builder::new().raw("k", 9, &lying_array).bytes()),
        ("gguf.truncated", Builder::new().raw("k", 8, &u64::MAX.to_le_bytes()).bytes()),
        ("gguf.duplicate", Builder::new().int("k", 1).int("k", 2).bytes()),
        ("gguf.duplicate", Builder::new().f32s("a", &[1], &[0.0]).f32s("a", &[1], &[0.0]).bytes()),
        ("gguf.alignment", Builder::new().int("general.alignment", 12).bytes()),
        ("gguf.alignment", Builder::new().int("general.alignment", 0).bytes()),
        ("gguf.alignment", Builder::new().text("general.alignment", "32").bytes()),
        ("gguf.type", Builder::new().tensor("a", &[256], 10, &[0; 84]).bytes()),
        ("gguf.type", Builder::new().tensor("a", &[256], 99, &[0; 84]).bytes()),
        ("gguf.shape", Builder::new().tensor("a", &[1, 1, 1, 1, 1], 0, &[0; 4]).bytes()),
        ("gguf.shape", Builder::new().tensor("a", &[u64::MAX, 3], 0, &[0; 4]).bytes()),
        ("gguf.shape", Builder::new().tensor("a", &[2, 16], 2, &[0; 18]).bytes()),
        ("gguf.offset", Builder::new().f32s("a", &[64], &[0.0; 64]).info_at("b", &[1], 0, 4).bytes()),
        ("gguf.overlap", Builder::new().f32s("a", &[64], &[0.0; 64]).info_at("b", &[1], 0, 32).bytes()),
        ("gguf.truncated", Builder::new().info_at("b", &[1], 0, 1 << 40).bytes()),
        ("gguf.truncated", Builder::new().info_at("b", &[1], 0, u64::MAX - 31).bytes()),
    ];
    for (i, (code, bytes)) in cases.iter().enumerate() {
        let fault = open(bytes).expect_err(&format!("case {i}, {code}"));
        assert_eq!(fault.code, *code, "case {i}: {fault}");
    }
    let mut counts = Builder::new().bytes();
    counts[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(open(&counts).unwrap_err().code, "gguf.count");
    let fault = open(&Builder::new().tensor("blk.0.w", &[256], 18, &[0; 84]).bytes()).unwrap_err();
    assert!(fault.message.contains("IQ3_XXS") && fault.message.contains("blk.0.w"));
}

#[test]
fn alignment_moves_the_data() {
    let mut builder = Builder::new().int("general.alignment", 64).f32s("a", &[2], &[1.0, 2.0]);
    let head = builder.bytes().len() - 8;
    // The builder pads to 32; fill up to 64 by hand.
    let pad = head.next_multiple_of(64) - head;
    builder.data.splice(0..0, std::iter::repeat_n(0u8, pad));
    let dir = tempdir().unwrap();
    let file = GgufFile::open(&builder.write(&dir)).unwrap();
    let mut out = [0f32; 2];
    file.read_f32(&file.tensors()[0], 0, &mut out).unwrap();
    assert_eq!(out, [1.0, 2.0]);
}

#[test]
fn the_config_has_hugging_faces_keys() {
    let dir = tempdir().unwrap();
    let file = GgufFile::open(&tiny().write(&dir)).unwrap();
    let config = hf_config(&file).unwrap();
    let expected = serde_json::json!({
        "model_type": "llama", "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 5,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "rope_scaling": null,
        "attention_bias": true, "mlp_bias": false, "tie_word_embeddings": true,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(config.get(key), Some(value), "{key}");
    }
}

#[test]
fn configs_that_cannot_be_are_refused() {
    let code = |builder: Builder| {
        let dir = tempdir().unwrap();
        hf_config(&GgufFile::open(&builder.write(&dir)).unwrap()).unwrap_err().code
    };
    assert_eq!(code(Builder::new()), "config.missing_key");
    assert_eq!(code(Builder::new().text("general.architecture", "gemma2")), "gguf.architecture");
    assert_eq!(code(Builder::new().text("general.architecture", "llama")), "config.missing_key");
    assert_eq!(code(tiny().int("split.count", 3)), "gguf.split");
    assert_eq!(code(tiny_head()), "model.missing_tensor");
    assert_eq!(code(tiny().int("llama.expert_count", 8)), "gguf.architecture");
    assert_eq!(code(tiny().int("llama.rope.dimension_count", 2)), "config.bad_key");
    assert_eq!(code(tiny().text("llama.attention.key_length", "4")), "config.bad_key");
    let zero = Builder::new()
        .text("general.architecture", "llama")
        .int("llama.attention.head_count", 0)
        .int("llama.embedding_length", 8);
    assert_eq!(code(zero), "config.bad_key");
}

#[test]
fn llama_3_factors_are_recognised_and_others_kept() {
    // Llama 3.2 1B: theta 500000, 64 dimensions a head, factor 32.
    let factors: Vec<f32> = (0..32)
        .map(|i| {
            let wavelength = 2.0 * std::f64::consts::PI * 500_000f64.powf(f64::from(i) / 32.0);
            let smooth = (8192.0 / wavelength - 1.0) / 3.0;
            (1.0 / ((1.0 - smooth.clamp(0.0, 1.0)) / 32.0 + smooth.clamp(0.0, 1.0))) as f32
        })
        .collect();
    let scaling = |factors: &[f32]| {
        let dir = tempdir().unwrap();
        let head = tiny_head_theta(500_000.0);
        let builder = head.f32s("token_embd.weight", &[5, 8], &[0.0; 40]).f32s("rope_freqs.weight", &[32], factors);
        hf_config(&GgufFile::open(&builder.write(&dir)).unwrap()).unwrap()["rope_scaling"].clone()
    };
    let found = scaling(&factors);
    assert_eq!(found["rope_type"], "llama3");
    assert_eq!(found["factor"], 32.0);
    assert_eq!(found["original_max_position_embeddings"], 8192);
    let mut other = factors;
    other[16] *= 1.1;
    assert_eq!(scaling(&other)["rope_type"], "factors");
}

fn tiny_head_theta(theta: f32) -> Builder {
    Builder::new()
        .text("general.architecture", "llama")
        .int("llama.embedding_length", 8)
        .int("llama.block_count", 1)
        .int("llama.feed_forward_length", 6)
        .int("llama.attention.head_count", 2)
        .int("llama.context_length", 64)
        .float("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .float("llama.rope.freq_base", theta)
}

#[test]
fn a_vocabulary_is_read_and_held_together() {
    let dir = tempdir().unwrap();
    let read = |builder: Builder| GgufVocab::read(&GgufFile::open(&builder.write(&dir)).unwrap());
    assert_eq!(read(tiny()).unwrap(), None);
    let base = tiny().text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", &["a", "b", "ab"]);
    let whole = base
        .clone()
        .texts("tokenizer.ggml.merges", &["a b"])
        .text("tokenizer.ggml.pre", "smollm")
        .int("tokenizer.ggml.eos_token_id", 2)
        .bool("tokenizer.ggml.add_bos_token", false)
        .text("tokenizer.chat_template", "{{ messages }}");
    let vocab = read(whole).unwrap().unwrap();
    assert_eq!(vocab.tokens, ["a", "b", "ab"]);
    assert_eq!(vocab.merges, ["a b"]);
    assert_eq!((vocab.eos, vocab.bos, vocab.add_bos), (Some(2), None, Some(false)));
    assert_eq!(vocab.pre.as_deref(), Some("smollm"));
    assert_eq!(vocab.chat_template.as_deref(), Some("{{ messages }}"));
    assert_eq!(read(base.clone().int("tokenizer.ggml.eos_token_id", 3)).unwrap_err().code, "gguf.tokenizer");
    assert_eq!(read(base.clone().int("tokenizer.ggml.merges", 3)).unwrap_err().code, "gguf.tokenizer");
    let types = [&4u32.to_le_bytes()[..], &1u64.to_le_bytes(), &1u32.to_le_bytes()].concat();
    assert_eq!(read(base.raw("tokenizer.ggml.token_type", 9, &types)).unwrap_err().code, "gguf.tokenizer");
}

#[test]
fn names_of_the_family_are_mapped_and_others_are_not() {
    assert_eq!(hf_name("blk.12.attn_q.weight").as_deref(), Some("model.layers.12.self_attn.q_proj.weight"));
    assert_eq!(hf_name("blk.0.attn_output.bias").as_deref(), Some("model.layers.0.self_attn.o_proj.bias"));
    assert_eq!(hf_name("blk.0.ffn_norm.weight").as_deref(), Some("model.layers.0.post_attention_layernorm.weight"));
    assert_eq!(hf_name("output.weight").as_deref(), Some("lm_head.weight"));
    for name in
        ["rope_freqs.weight", "blk.x.attn_q.weight", "blk.0.attn_q.scale", "blk.0.ffn_gate_inp.weight", "blk.0", ""]
    {
        assert_eq!(hf_name(name), None, "{name}");
    }
    assert_eq!(permuted("blk.1.attn_k.bias"), Some(HeadRows::Key));
    assert_eq!(permuted("blk.1.attn_v.weight"), None);
}

proptest! {
    /// Changed bytes in a sound head end in a file or a fault.
    #[test]
    fn no_changed_byte_crashes_it(changes in prop::collection::vec((0usize..900, any::<u8>()), 1..4)) {
        let mut bytes = tiny().bytes();
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        if let Ok(file) = open(&bytes) {
            let _ = hf_config(&file);
            let _ = GgufVocab::read(&file);
            for tensor in file.tensors() {
                let _ = file.read_f32(tensor, 0, &mut [0f32; 2]);
            }
        }
    }
}
