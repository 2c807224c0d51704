//! Names and row order of a Llama-family GGUF in Hugging Face's terms.

/// What a tensor is called in a Hugging Face checkpoint; none for names that are not of the family.
pub(in crate::store) fn hf_name(name: &str) -> Option<String> {
    let whole = match name {
        "token_embd.weight" => "model.embed_tokens.weight",
        "output_norm.weight" => "model.norm.weight",
        "output.weight" => "lm_head.weight",
        "output.bias" => "lm_head.bias",
        _ => "",
    };
    if !whole.is_empty() {
        return Some(whole.to_owned());
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<u32>().ok()?;
    let (part, kind) = rest.rsplit_once('.')?;
    let part = match part {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
}

/// Whose heads the rows of a tensor are grouped in, where the converter from Hugging Face interleaved them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum HeadRows {
    Query,
    Key,
}

/// Weights and biases of the query and key projections are permuted for interleaved rotary embeddings.
pub(in crate::store) fn permuted(name: &str) -> Option<HeadRows> {
    let part = name.strip_prefix("blk.")?.split_once('.')?.1;
    match part.rsplit_once('.')?.0 {
        "attn_q" => Some(HeadRows::Query),
        "attn_k" => Some(HeadRows::Key),
        _ => None,
    }
}
