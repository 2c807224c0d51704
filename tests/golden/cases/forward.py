"""Logits of Llama variants, and what follows from logits: evaluation and greedy continuation."""

import json
import math

import torch
from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from . import tiny

LLAMA3_ROPE = dict(
    rope_type="llama3",
    rope_theta=10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
LINEAR_ROPE = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)

VARIANTS = {
    "forward-gqa-tied": dict(),
    "forward-mha-untied": dict(
        num_key_value_heads=4,
        tie_word_embeddings=False,
        rms_norm_eps=1e-6,
        rope_parameters=dict(rope_type="default", rope_theta=500.0),
    ),
    "forward-head-dim": dict(head_dim=14),
    "forward-biases": dict(attention_bias=True, mlp_bias=True),
    "forward-rope-llama3": dict(rope_parameters=LLAMA3_ROPE),
    "forward-rope-linear": dict(rope_parameters=LINEAR_ROPE),
    "forward-bf16": dict(),
}


def old_style(config, rope):
    """config.json as transformers 4 wrote it: rope_theta at the top, the scaling in `rope_scaling`, later keys absent."""
    config = {key: value for key, value in config.items() if key not in ("head_dim", "mlp_bias", "attention_bias")}
    rope = dict(rope)
    config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if rope["rope_type"] == "linear":
        rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.40.0"
    return config


@torch.no_grad()
def write_logits(folder, seed):
    """Two sequences of unequal length, each run alone; padded together they must give the same."""
    model = tiny.load(folder / "model")
    draw = torch.Generator().manual_seed(1000 + seed)
    vocab = model.config.vocab_size
    rows = [tiny.token_ids(draw, 41, vocab), tiny.token_ids(draw, 17, vocab)]
    logits = [model(torch.tensor([row])).logits[0] for row in rows]

    padded = torch.tensor([rows[0], rows[1] + [0] * (len(rows[0]) - len(rows[1]))])
    mask = torch.tensor([[1] * len(rows[0]), [1] * len(rows[1]) + [0] * (len(rows[0]) - len(rows[1]))])
    together = model(padded, attention_mask=mask).logits
    assert (together[1, : len(rows[1])] - logits[1]).abs().max() < 1e-5

    losses = [tiny.token_losses(scores, torch.tensor(row)) for scores, row in zip(logits, rows)]
    tiny.save_json(folder, "data.json", {"sequences": rows})
    tiny.save_tensors(folder, {f"logits.{index}": scores for index, scores in enumerate(logits)})
    tiny.save_json(
        folder,
        "expected.json",
        {
            "mean_loss": [float(total) / count for total, count in losses],
            "logits_std": float(torch.cat(logits).std()),
            "logits_max_abs": float(torch.cat(logits).abs().max()),
        },
    )
    return logits


def forward_cases():
    for index, (case, changes) in enumerate(VARIANTS.items()):
        folder = tiny.fresh(case)
        model = tiny.llama(seed=10 + index, **changes)
        if case == "forward-bf16":
            model = model.to(torch.bfloat16)
        tiny.save_model(model, folder / "model")
        logits = write_logits(folder, seed=10 + index)

        rope = changes.get("rope_parameters")
        if rope and rope["rope_type"] != "default":
            plain = tiny.load(folder / "model")
            plain.model.rotary_emb = tiny.llama(seed=0).model.rotary_emb
            row = json.loads((folder / "data.json").read_text())["sequences"][0]
            with torch.no_grad():
                moved = (plain(torch.tensor([row])).logits[0] - logits[0]).abs().max()
            assert moved > 0.1, f"{case}: the scaling hardly matters ({moved})"

            again = tiny.fresh(case + "-old-config")
            tiny.save_model(model, again / "model")
            path = again / "model" / "config.json"
            path.write_text(json.dumps(old_style(json.loads(path.read_text()), rope), indent=2) + "\n")
            same = write_logits(again, seed=10 + index)
            assert all(torch.equal(a, b) for a, b in zip(logits, same)), "old and new keys mean the same model"


def sibling_cases():
    """Families whose decoder is Llama's but for biases and windows. Mistral's window is longer than the rows."""
    siblings = {
        "forward-qwen2": (Qwen2Config, Qwen2ForCausalLM, dict(tie_word_embeddings=False, rms_norm_eps=1e-6)),
        "forward-mistral": (MistralConfig, MistralForCausalLM, dict(head_dim=10, sliding_window=64)),
    }
    for index, (case, (config, decoder, changes)) in enumerate(siblings.items()):
        folder = tiny.fresh(case)
        settings = config(**(tiny.SIZES | changes))
        settings._attn_implementation = "eager"
        tiny.save_model(tiny.lively(decoder(settings), seed=30 + index), folder / "model")
        write_logits(folder, seed=30 + index)


def eval_case():
    """Mean loss and perplexity over rows of unequal length, some of them with a masked prompt."""
    folder = tiny.fresh("eval")
    model = tiny.load(tiny.GOLDEN / "forward-gqa-tied" / "model")
    draw = torch.Generator().manual_seed(77)
    rows = []
    for length, prompt in [(12, 5), (3, 1), (30, 0), (19, 18), (7, 7), (24, 11), (16, 4)]:
        ids = tiny.token_ids(draw, length, model.config.vocab_size)
        rows.append({"ids": ids, "labels": [-100] * prompt + ids[prompt:]})
    with torch.no_grad():
        each = [tiny.token_losses(model(torch.tensor([r["ids"]])).logits, torch.tensor([r["labels"]])) for r in rows]
    total, counted = sum(float(loss) for loss, _ in each), sum(count for _, count in each)
    tiny.save_json(folder, "data.json", {"model": "forward-gqa-tied/model", "rows": rows})
    tiny.save_json(
        folder,
        "expected.json",
        {
            "row_loss_sums": [float(loss) for loss, _ in each],
            "row_counted_tokens": [count for _, count in each],
            "counted_tokens": counted,
            "mean_loss": total / counted,
            "perplexity": math.exp(total / counted),
        },
    )


def sample_case():
    """Twenty greedy tokens after each prompt; no choice among them is near a tie, none is the end-of-text token."""
    folder = tiny.fresh("sample")
    model = tiny.load(tiny.GOLDEN / "forward-mha-untied" / "model")  # tied models mostly repeat themselves
    model.generation_config.eos_token_id = None
    draw = torch.Generator().manual_seed(88)
    prompts, continuations, margins = [], [], []
    while len(prompts) < 4:
        prompt = tiny.token_ids(draw, (1, 5, 9, 14)[len(prompts)], model.config.vocab_size)
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=20,
            do_sample=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        )
        top = torch.stack([score[0].topk(2).values for score in out.scores])
        margin = float((top[:, 0] - top[:, 1]).min())
        continuation = out.sequences[0, len(prompt) :].tolist()
        if margin < 1e-2 or len(set(continuation)) < 8 or tiny.SIZES["eos_token_id"] in continuation:
            continue
        prompts.append(prompt)
        continuations.append(continuation)
        margins.append(margin)
    tiny.save_json(folder, "data.json", {"model": "forward-mha-untied/model", "prompts": prompts, "max_new": 20})
    tiny.save_json(folder, "expected.json", {"continuations": continuations, "smallest_margin": min(margins)})


def make():
    forward_cases()
    sibling_cases()
    eval_case()
    sample_case()
