//! The order in which a model's tensors are listed, read and written.

/// Sort key: embeddings, layers by number and in the order of their forward pass, final norm, head, the rest by name.
pub(in crate::store) fn layer_order(name: &str) -> (u8, u64, usize, String) {
    let rest = |place: u8| (place, 0, 0, name.to_owned());
    if name.starts_with("model.embed_tokens.") {
        return rest(0);
    }
    if name.starts_with("model.norm.") {
        return rest(2);
    }
    if name.starts_with("lm_head.") {
        return rest(3);
    }
    let Some((layer, part)) = name.strip_prefix("model.layers.").and_then(|n| n.split_once('.')) else {
        return rest(4);
    };
    let Ok(layer) = layer.parse() else { return rest(4) };
    let at = PARTS.iter().position(|p| part.starts_with(p)).unwrap_or(PARTS.len());
    (1, layer, at, name.to_owned())
}

const PARTS: [&str; 9] = [
    "input_layernorm.",
    "self_attn.q_proj.",
    "self_attn.k_proj.",
    "self_attn.v_proj.",
    "self_attn.o_proj.",
    "post_attention_layernorm.",
    "mlp.gate_proj.",
    "mlp.up_proj.",
    "mlp.down_proj.",
];

/// Adds the leading `model.` that files saved from the bare decoder lack.
pub(super) fn normalised(name: &str) -> String {
    let bare = ["layers.", "embed_tokens.", "norm."].iter().any(|p| name.starts_with(p));
    if bare { format!("model.{name}") } else { name.to_owned() }
}
