"""Parameters of published models, counted by transformers on models that take no memory."""

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from . import tiny

LLAMA = (LlamaConfig, LlamaForCausalLM)
MISTRAL = (MistralConfig, MistralForCausalLM)
QWEN2 = (Qwen2Config, Qwen2ForCausalLM)
QWEN3 = (Qwen3Config, Qwen3ForCausalLM)
GEMMA2 = (Gemma2Config, Gemma2ForCausalLM)
GEMMA3 = (Gemma3TextConfig, Gemma3ForCausalLM)
PHI3 = (Phi3Config, Phi3ForCausalLM)

# hidden, layers, heads, heads of keys, width of a head, feed-forward width, vocabulary, tied
MODELS = {
    "smollm2-135m": (LLAMA, 576, 30, 9, 3, 64, 1536, 49152, True),
    "smollm2-360m": (LLAMA, 960, 32, 15, 5, 64, 2560, 49152, True),
    "smollm2-1.7b": (LLAMA, 2048, 24, 32, 32, 64, 8192, 49152, True),
    "tinyllama-1.1b": (LLAMA, 2048, 22, 32, 4, 64, 5632, 32000, False),
    "llama-2-7b": (LLAMA, 4096, 32, 32, 32, 128, 11008, 32000, False),
    "llama-2-13b": (LLAMA, 5120, 40, 40, 40, 128, 13824, 32000, False),
    "llama-2-70b": (LLAMA, 8192, 80, 64, 8, 128, 28672, 32000, False),
    "llama-3-8b": (LLAMA, 4096, 32, 32, 8, 128, 14336, 128256, False),
    "llama-3-70b": (LLAMA, 8192, 80, 64, 8, 128, 28672, 128256, False),
    "llama-3.1-8b": (LLAMA, 4096, 32, 32, 8, 128, 14336, 128256, False),
    "llama-3.1-70b": (LLAMA, 8192, 80, 64, 8, 128, 28672, 128256, False),
    "llama-3.1-405b": (LLAMA, 16384, 126, 128, 8, 128, 53248, 128256, False),
    "llama-3.2-1b": (LLAMA, 2048, 16, 32, 8, 64, 8192, 128256, True),
    "llama-3.2-3b": (LLAMA, 3072, 28, 24, 8, 128, 8192, 128256, True),
    "llama-3.3-70b": (LLAMA, 8192, 80, 64, 8, 128, 28672, 128256, False),
    "mistral-7b-v0.1": (MISTRAL, 4096, 32, 32, 8, 128, 14336, 32000, False),
    "mistral-7b-v0.3": (MISTRAL, 4096, 32, 32, 8, 128, 14336, 32768, False),
    "mistral-nemo-12b": (MISTRAL, 5120, 40, 32, 8, 128, 14336, 131072, False),
    "mistral-small-24b": (MISTRAL, 5120, 40, 32, 8, 128, 32768, 131072, False),
    "qwen2.5-0.5b": (QWEN2, 896, 24, 14, 2, 64, 4864, 151936, True),
    "qwen2.5-1.5b": (QWEN2, 1536, 28, 12, 2, 128, 8960, 151936, True),
    "qwen2.5-3b": (QWEN2, 2048, 36, 16, 2, 128, 11008, 151936, True),
    "qwen2.5-7b": (QWEN2, 3584, 28, 28, 4, 128, 18944, 152064, False),
    "qwen2.5-14b": (QWEN2, 5120, 48, 40, 8, 128, 13824, 152064, False),
    "qwen2.5-32b": (QWEN2, 5120, 64, 40, 8, 128, 27648, 152064, False),
    "qwen2.5-72b": (QWEN2, 8192, 80, 64, 8, 128, 29568, 152064, False),
    "qwen3-0.6b": (QWEN3, 1024, 28, 16, 8, 128, 3072, 151936, True),
    "qwen3-1.7b": (QWEN3, 2048, 28, 16, 8, 128, 6144, 151936, True),
    "qwen3-4b": (QWEN3, 2560, 36, 32, 8, 128, 9728, 151936, True),
    "qwen3-8b": (QWEN3, 4096, 36, 32, 8, 128, 12288, 151936, False),
    "qwen3-14b": (QWEN3, 5120, 40, 40, 8, 128, 17408, 151936, False),
    "qwen3-32b": (QWEN3, 5120, 64, 64, 8, 128, 25600, 151936, False),
    "gemma-2-2b": (GEMMA2, 2304, 26, 8, 4, 256, 9216, 256000, True),
    "gemma-2-9b": (GEMMA2, 3584, 42, 16, 8, 256, 14336, 256000, True),
    "gemma-2-27b": (GEMMA2, 4608, 46, 32, 16, 128, 36864, 256000, True),
    "gemma-3-1b": (GEMMA3, 1152, 26, 4, 1, 256, 6912, 262144, True),
    "gemma-3-4b": (GEMMA3, 2560, 34, 8, 4, 256, 10240, 262208, True),
    "gemma-3-12b": (GEMMA3, 3840, 48, 16, 8, 256, 15360, 262208, True),
    "gemma-3-27b": (GEMMA3, 5376, 62, 32, 16, 128, 21504, 262208, True),
    "phi-3-mini": (PHI3, 3072, 32, 32, 32, 96, 8192, 32064, False),
    "phi-3-medium": (PHI3, 5120, 40, 40, 10, 128, 17920, 32064, False),
    "phi-4": (PHI3, 5120, 40, 40, 10, 128, 17920, 100352, False),
    "phi-4-mini": (PHI3, 3072, 32, 24, 8, 128, 8192, 200064, True),
}


def make():
    folder = tiny.fresh("sizes")
    counts = {}
    for name, ((config, decoder), hidden, layers, heads, kv_heads, head_dim, ffn, vocab, tied) in MODELS.items():
        settings = config(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=ffn,
            vocab_size=vocab,
            tie_word_embeddings=tied,
            pad_token_id=None,
        )
        with torch.device("meta"):
            model = decoder(settings)
        blocks = [module.weight.numel() for at, module in model.model.layers.named_modules() if hasattr(module, "weight")
                  and module.weight.dim() == 2]
        counts[name] = {
            "parameters": sum(p.numel() for p in model.parameters()),
            "linear": sum(blocks),
        }
    tiny.save_json(folder, "expected.json", counts)
