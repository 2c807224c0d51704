//! Families of decoders: which of them run here, and which are only sized.

use super::tensors::Proj;

/// A family, as `model_type` of a `config.json` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    #[default]
    Llama,
    /// Llama's decoder. An attention window counts as the longest row, within which it is full attention.
    Mistral,
    /// Llama's decoder with biases on q, k and v.
    Qwen2,
    /// Norms over each head's queries and keys.
    Qwen3,
    /// Norms after attention and after the feed-forward part as well, GELU, soft caps.
    Gemma2,
    /// As Gemma 2, without the caps and with norms over each head's queries and keys.
    Gemma3,
    /// q, k and v in one matrix, gate and up in another.
    Phi3,
}

/// A norm of a decoder block, by where it stands in the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockNorm {
    /// Name in transformers, after `model.layers.N.`.
    pub name: &'static str,
    /// The projection that it is listed in front of; none: it closes the block.
    pub before: Option<Proj>,
    /// Over one head instead of the residual stream.
    pub of_head: bool,
}

const fn norm(name: &'static str, before: Option<Proj>) -> BlockNorm {
    BlockNorm { name, before, of_head: false }
}

const fn head_norm(name: &'static str) -> BlockNorm {
    BlockNorm { name, before: Some(Proj::O), of_head: true }
}

const PLAIN: &[BlockNorm] =
    &[norm("input_layernorm", Some(Proj::Q)), norm("post_attention_layernorm", Some(Proj::Gate))];
const QK: &[BlockNorm] = &[
    norm("input_layernorm", Some(Proj::Q)),
    head_norm("self_attn.q_norm"),
    head_norm("self_attn.k_norm"),
    norm("post_attention_layernorm", Some(Proj::Gate)),
];
const SANDWICH: &[BlockNorm] = &[
    norm("input_layernorm", Some(Proj::Q)),
    norm("post_attention_layernorm", Some(Proj::Gate)),
    norm("pre_feedforward_layernorm", Some(Proj::Gate)),
    norm("post_feedforward_layernorm", None),
];
const SANDWICH_QK: &[BlockNorm] = &[
    norm("input_layernorm", Some(Proj::Q)),
    head_norm("self_attn.q_norm"),
    head_norm("self_attn.k_norm"),
    norm("post_attention_layernorm", Some(Proj::Gate)),
    norm("pre_feedforward_layernorm", Some(Proj::Gate)),
    norm("post_feedforward_layernorm", None),
];

impl Family {
    pub const ALL: [Family; 7] =
        [Family::Llama, Family::Mistral, Family::Qwen2, Family::Qwen3, Family::Gemma2, Family::Gemma3, Family::Phi3];

    /// `model_type` in `config.json`, and `family=` in the catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Mistral => "mistral",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
            Family::Gemma2 => "gemma2",
            Family::Gemma3 => "gemma3_text",
            Family::Phi3 => "phi3",
        }
    }

    /// The model's class in transformers.
    pub fn architecture(self) -> &'static str {
        match self {
            Family::Llama => "LlamaForCausalLM",
            Family::Mistral => "MistralForCausalLM",
            Family::Qwen2 => "Qwen2ForCausalLM",
            Family::Qwen3 => "Qwen3ForCausalLM",
            Family::Gemma2 => "Gemma2ForCausalLM",
            Family::Gemma3 => "Gemma3ForCausalLM",
            Family::Phi3 => "Phi3ForCausalLM",
        }
    }

    pub fn from_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Whether its arithmetic is here; the others can be planned from their sizes.
    pub fn runs(self) -> bool {
        matches!(self, Family::Llama | Family::Mistral | Family::Qwen2)
    }

    /// `llama, mistral, qwen2`: those that run.
    pub fn runnable() -> String {
        let names: Vec<&str> = Family::ALL.into_iter().filter(|family| family.runs()).map(Family::name).collect();
        names.join(", ")
    }

    pub(crate) fn norms(self) -> &'static [BlockNorm] {
        match self {
            Family::Llama | Family::Mistral | Family::Qwen2 | Family::Phi3 => PLAIN,
            Family::Qwen3 => QK,
            Family::Gemma2 => SANDWICH,
            Family::Gemma3 => SANDWICH_QK,
        }
    }

    /// Whether an attention bias of this family lies on the output projection too.
    pub(crate) fn output_bias(self) -> bool {
        self != Family::Qwen2
    }
}
