#!/usr/bin/env python3
"""What transformers makes of two paragraphs with the real model: token ids, losses, a greedy continuation. See README.md."""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

HERE = Path(__file__).resolve().parent
MODELS, GGUF = HERE.parent.parent / "models", "smollm2-135m-instruct.gguf"


def main():
    if not (MODELS / GGUF).is_file():
        sys.exit(f"models/{GGUF} is missing; run scripts/fetch-real-model")
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(MODELS, gguf_file=GGUF)
    model = AutoModelForCausalLM.from_pretrained(
        MODELS, gguf_file=GGUF, dtype=torch.float32, attn_implementation="eager"
    ).eval()

    for name in ("paragraph", "plain"):
        reference(name, tokenizer, model)
    scrambled(model)
    for name in ("paragraph", "plain"):
        ids = json.loads((HERE / f"{name}.ids.json").read_text())
        print(f"{name}: {float(losses_of(model, ids)[0].mean()):.4f} with q and k as GGUF files order them")


def losses_of(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none").double(), logits


def scrambled(model):
    """Undoes what a reader of GGUF has to do: rows of q and k in the pairing of llama.cpp's rotary embeddings."""
    config = model.config
    for layer in model.model.layers:
        for proj, heads in [("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)]:
            weight = getattr(layer.self_attn, proj).weight
            rows, columns = weight.shape
            pairs = weight.data.reshape(heads, 2, rows // heads // 2, columns)
            weight.data = pairs.swapaxes(1, 2).reshape(rows, columns).contiguous()


def reference(name, tokenizer, model):
    text = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    with torch.no_grad():
        losses, logits = losses_of(model, ids)
        continued, margins = list(ids), []
        for _ in range(16):
            best = model(torch.tensor([continued])).logits[0, -1].topk(2)
            continued.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))

    expected = {
        "tokens": len(ids),
        "counted_tokens": len(losses),
        "mean_loss": float(losses.mean()),
        "losses": [round(float(loss), 5) for loss in losses],
        "last_logits_top5": dict(zip(map(str, logits[-1].topk(5).indices.tolist()), logits[-1].topk(5).values.tolist())),
        "greedy": continued[len(ids) :],
        "greedy_text": tokenizer.decode(continued[len(ids) :]),
        "greedy_smallest_margin": min(margins),
    }
    (HERE / f"{name}.ids.json").write_text(json.dumps(ids) + "\n")
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in expected.items()]
    (HERE / f"{name}.expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{name}: mean loss {expected['mean_loss']:.6f} over {len(losses)} tokens")


if __name__ == "__main__":
    main()
