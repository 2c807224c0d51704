"""Small random Llama models, and the writing of a case's files."""

import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

GOLDEN = Path(__file__).resolve().parent.parent

# Small, and no two sizes alike: a transposed or exchanged dimension cannot pass unseen.
SIZES = dict(
    hidden_size=32,
    intermediate_size=56,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
    max_position_embeddings=128,
    rms_norm_eps=1e-5,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
    tie_word_embeddings=True,
)


def llama(seed, **changes):
    """A model whose every part matters: norms off one, biases off zero, logits spread over several units."""
    config = LlamaConfig(**(SIZES | changes))
    config._attn_implementation = "eager"
    return lively(LlamaForCausalLM(config), seed)


def lively(model, seed):
    """Weights as `llama` says."""
    model = model.to(torch.float32).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=draw)
            if "norm" in name:
                weight.copy_(1 + 0.1 * noise)
            elif "embed_tokens" in name or "lm_head" in name:
                weight.copy_(0.4 * noise)
            else:
                weight.copy_((0.1 if name.endswith("bias") else 0.2) * noise)
    return model


def load(folder, **options):
    """A saved model, as a reader of the files finds it; computing in f32 whatever the files hold."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **options).eval()


def fresh(case):
    """The case's folder, empty."""
    folder = GOLDEN / case
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def save_model(model, folder):
    """config.json and model.safetensors, nothing else."""
    model.save_pretrained(folder)
    (Path(folder) / "generation_config.json").unlink(missing_ok=True)


def save_tensors(folder, tensors, name="expected.safetensors"):
    tensors = {key: value.detach().contiguous().clone() for key, value in sorted(tensors.items())}
    save_file(tensors, Path(folder) / name)


def save_json(folder, name, value):
    """A key a line at the top, compact below: small, and a change shows in a diff."""
    rows = [f"  {json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()]
    (Path(folder) / name).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def token_ids(draw, length, vocab, low=3):
    """Ids that avoid the special ones."""
    return torch.randint(low, vocab, (length,), generator=draw).tolist()


def token_losses(logits, labels):
    """Sum of -log p over counted positions, and their number; position i is scored against label i + 1."""
    targets = labels[..., 1:].reshape(-1)
    scores = logits[..., :-1, :].reshape(-1, logits.shape[-1])
    total = torch.nn.functional.cross_entropy(scores, targets, ignore_index=-100, reduction="sum")
    return total, int((targets != -100).sum())


def warmup_cosine(step, warmup, steps):
    """Share of the peak learning rate at optimizer step `step`, the first being 0."""
    if step < warmup:
        return step / max(1, warmup)
    return max(0.0, 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))))
