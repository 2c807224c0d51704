#!/usr/bin/env python3
"""What transformers makes of paragraph.txt with the real model: token ids, losses, a greedy continuation. See README.md."""

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
    text = (HERE / "paragraph.txt").read_text(encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(MODELS, gguf_file=GGUF)
    model = AutoModelForCausalLM.from_pretrained(
        MODELS, gguf_file=GGUF, dtype=torch.float32, attn_implementation="eager"
    ).eval()

    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none").double()
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
    (HERE / "paragraph.ids.json").write_text(json.dumps(ids) + "\n")
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in expected.items()]
    (HERE / "paragraph.expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"mean loss {expected['mean_loss']:.6f} over {len(losses)} tokens")


if __name__ == "__main__":
    main()
