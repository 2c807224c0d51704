//! Configs, the catalogue's keys, and the list of tensors.

use serde_json::{Value, json};

use super::*;
use crate::plan::Val;

fn config() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu",
        "rope_theta": 500000.0,
        "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128},
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut config = config();
    config[key] = value;
    config
}

fn code(config: &Value) -> &'static str {
    Shape::from_config(config).expect_err("a fault").code
}

#[test]
fn old_and_new_keys_mean_the_same() {
    let old = Shape::from_config(&config()).expect("a shape");
    assert_eq!(old.head_dim, 8);
    assert_eq!(old.rope.scaling, Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 128.0 });
    let mut new = config();
    let parameters = json!({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 128});
    let keys = new.as_object_mut().expect("an object");
    keys.remove("rope_theta");
    keys.remove("rope_scaling");
    keys.insert("rope_parameters".into(), parameters);
    assert_eq!(Shape::from_config(&new).expect("a shape"), old);
    assert_eq!(Shape::from_config(&old.to_config("float32")).expect("a shape"), old);
}

#[test]
fn left_out_keys_have_transformers_defaults() {
    let bare = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5,
        "num_attention_heads": 8, "vocab_size": 512, "num_key_value_heads": null, "rope_scaling": null});
    let shape = Shape::from_config(&bare).expect("a shape");
    assert_eq!((shape.kv_heads, shape.tied, shape.norm_eps, shape.max_positions), (8, false, 1e-6, 2048));
    assert_eq!(shape.rope, Rope { theta: 10000.0, scaling: Scaling::None });
}

#[test]
fn bad_configs_are_refused_by_name() {
    for key in
        ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type"]
    {
        let mut config = config();
        config.as_object_mut().expect("an object").remove(key);
        let fault = Shape::from_config(&config).expect_err("a fault");
        assert_eq!(fault.code, "config.missing_key");
        assert!(fault.message.contains(key), "{}", fault.message);
    }
    let stranger = Shape::from_config(&with("model_type", json!("mamba"))).expect_err("a fault");
    assert_eq!((stranger.code, stranger.notes.len()), ("model.family", 1));
    assert!(stranger.notes[0].contains("llama, mistral, qwen2"));
    let sized = Shape::from_config(&with("model_type", json!("gemma2"))).expect_err("a fault");
    assert_eq!((sized.code, sized.notes.len()), ("model.family", 2));
    assert_eq!(code(&with("hidden_act", json!("gelu"))), "model.activation");
    assert_eq!(code(&with("num_attention_heads", json!(0))), "config.bad_value");
    assert_eq!(code(&with("num_attention_heads", json!(7))), "config.bad_value");
    assert_eq!(code(&with("num_key_value_heads", json!(3))), "config.bad_value");
    assert_eq!(code(&with("num_key_value_heads", json!(0))), "config.bad_value");
    assert_eq!(code(&with("head_dim", json!(7))), "config.bad_value");
    assert_eq!(code(&with("vocab_size", json!(1u64 << 40))), "config.bad_value");
    assert_eq!(code(&with("hidden_size", json!("64"))), "config.bad_value");
    assert_eq!(code(&with("hidden_size", json!(-64))), "config.bad_value");
    assert_eq!(code(&with("rms_norm_eps", json!(0))), "config.bad_value");
    assert_eq!(code(&with("quantization_config", json!({"quant_method": "gptq", "bits": 4}))), "model.quantised");
    assert_eq!(code(&with("partial_rotary_factor", json!(0.5))), "model.rope");
    assert_eq!(code(&with("rope_scaling", json!({"rope_type": "yarn"}))), "model.rope");
    assert_eq!(code(&with("rope_scaling", json!({"rope_type": "linear"}))), "config.missing_key");
    assert_eq!(code(&with("rope_scaling", json!([1]))), "config.bad_value");
    assert_eq!(code(&json!([])), "config.bad_value");
}

#[test]
fn siblings_are_llamas_with_their_own_biases_and_windows() {
    let of = |changes: &[(&str, serde_json::Value)]| {
        let mut config = json!({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 4096});
        for (key, value) in changes {
            config[*key] = value.clone();
        }
        config
    };
    let mistral = ("model_type", json!("mistral"));
    let read = |changes: &[(&str, serde_json::Value)]| Shape::from_config(&of(changes)).expect("a shape");
    assert_eq!(read(std::slice::from_ref(&mistral)).max_positions, 4096);
    assert_eq!(read(&[mistral.clone(), ("sliding_window", json!(null))]).max_positions, 4096);
    assert_eq!(read(&[mistral.clone(), ("sliding_window", json!(1024))]).max_positions, 1024);
    let qwen = ("model_type", json!("qwen2"));
    let plain = read(&[qwen.clone(), ("sliding_window", json!(1024)), ("use_sliding_window", json!(false))]);
    assert_eq!(plain.max_positions, 4096);
    let on = read(&[qwen.clone(), ("sliding_window", json!(1024)), ("use_sliding_window", json!(true))]);
    assert_eq!(on.max_positions, 1024);
    let biases: Vec<Proj> = Proj::ALL.into_iter().filter(|proj| plain.bias_at(0, *proj).is_some()).collect();
    assert_eq!(biases, [Proj::Q, Proj::K, Proj::V]);
    for shape in [read(std::slice::from_ref(&mistral)), plain, on] {
        assert_eq!(Shape::from_config(&shape.to_config("bfloat16")).expect("a shape"), shape);
    }
    // Their classes take other values for granted than Llama's.
    let mut short = of(&[mistral]);
    short.as_object_mut().expect("an object").remove("num_key_value_heads");
    assert_eq!(Shape::from_config(&short).expect_err("a fault").code, "config.missing_key");
}

#[test]
fn the_catalogues_keys_make_a_shape() {
    let keys = |list: &[(&str, Val)]| list.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect::<Vec<_>>();
    let llama = keys(&[
        ("family", Val::Symbol("llama".into())),
        ("hidden", Val::Int(4096)),
        ("layers", Val::Int(32)),
        ("heads", Val::Int(32)),
        ("kv_heads", Val::Int(8)),
        ("ffn", Val::Int(14336)),
        ("vocab", Val::Int(128256)),
        ("positions", Val::Int(131072)),
        ("rope_theta", Val::Int(500000)),
        ("rope_scaling", Val::Symbol("llama3".into())),
    ]);
    let shape = Shape::from_keys(&llama).expect("a shape");
    // Published: 6,979,321,856 parameters in linear layers, 1,050,939,392 outside.
    assert_eq!(shape.parameters(), 6_979_321_856 + 1_050_939_392);
    let mut stray = llama.clone();
    stray.push(("heds".into(), Val::Int(3)));
    assert_eq!(Shape::from_keys(&stray).expect_err("a fault").code, "shape.unknown_key");
    assert_eq!(Shape::from_keys(&llama[..4]).expect_err("a fault").code, "shape.missing_key");
}

#[test]
fn indices_and_names_agree() {
    for shape in
        [tied(), biased(), qwen(), Shape { mlp_bias: false, ..biased() }, Shape { attention_bias: false, ..biased() }]
    {
        let list = shape.tensors();
        assert_eq!(list[Shape::EMBEDDING].role, Role::Embedding);
        assert_eq!(list[shape.final_norm_at()].name, "model.norm.weight");
        assert_eq!(list[shape.head_at()].role, if shape.tied { Role::Embedding } else { Role::Head });
        for layer in 0..shape.layers {
            let name = |at: usize| list[at].name.as_str();
            assert_eq!(name(shape.attention_norm_at(layer)), format!("model.layers.{layer}.input_layernorm.weight"));
            assert_eq!(name(shape.mlp_norm_at(layer)), format!("model.layers.{layer}.post_attention_layernorm.weight"));
            for proj in Proj::ALL {
                assert_eq!(name(shape.linear_at(layer, proj)), format!("{}.weight", proj.module(layer)));
                if let Some(at) = shape.bias_at(layer, proj) {
                    assert_eq!(name(at), format!("{}.bias", proj.module(layer)));
                }
                assert_eq!(Proj::from_module(&proj.module(layer)), Some((layer, proj)));
            }
        }
    }
    assert_eq!(Proj::from_module("model.layers.0.mlp.q_proj"), None);
}

#[test]
fn files_are_held_to_the_list() {
    let shape = tied();
    let list = shape.tensors();
    let mut given: Vec<(&str, &[usize])> = list.iter().map(|t| (t.name.as_str(), &t.shape[..])).collect();
    given.push(("model.layers.0.self_attn.rotary_emb.inv_freq", &[4]));
    given.push(("lm_head.weight", &[40, 32]));
    shape.check_names(&given).expect("a whole model");
    let untied = Shape { tied: false, ..tied() };
    untied.check_names(&given).expect("a whole untied model");
    let refused = |given: &[(&str, &[usize])]| shape.check_names(given).expect_err("a fault").code;
    assert_eq!(refused(&given[1..]), "model.missing_tensor");
    given.push(("model.layers.0.self_attn.q_proj.bias", &[32]));
    assert_eq!(refused(&given), "model.extra_tensor");
    given.pop();
    given[0].1 = &[40, 31];
    assert_eq!(refused(&given), "model.tensor_shape");
}
