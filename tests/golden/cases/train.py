"""Training trajectories: torch's AdamW, PEFT's LoRA, the window's mean over counted tokens."""

import json
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict

from . import nf4, tiny

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, ALPHA = 4, 8
WEIGHT_DECAY, WARMUP = 0.01, 3
CLIP = 0.5  # far below the norms: it binds at every step

# A recurring rhyme of tokens gives the loss something to learn within ten steps.
RHYME = [7, 21, 35, 11, 48, 7, 60, 33, 90, 14, 5, 72]


def window(draw, vocab):
    """Two micro-batches of two rows of unequal length; prompts masked, one row with every label given."""
    batches = []
    for batch in range(2):
        rows = []
        for row in range(2):
            prompt = int(torch.randint(1, 7, (1,), generator=draw))
            answer = int(torch.randint(1, 13, (1,), generator=draw))
            ids = tiny.token_ids(draw, prompt, vocab) + RHYME[:answer]
            masked = 0 if (batch, row) == (1, 0) else prompt
            rows.append({"ids": ids, "labels": [-100] * masked + ids[masked:]})
        batches.append(rows)
    return batches


def padded(rows):
    """Right padding: id 0, label -100, attention 0."""
    longest = max(len(row["ids"]) for row in rows)
    ids = torch.tensor([row["ids"] + [0] * (longest - len(row["ids"])) for row in rows])
    labels = torch.tensor([row["labels"] + [-100] * (longest - len(row["ids"])) for row in rows])
    mask = torch.tensor([[1] * len(row["ids"]) + [0] * (longest - len(row["ids"])) for row in rows])
    return ids, labels, mask


def trajectory(model, trained, windows, peak_lr, clip):
    """Trains `trained` ({name: parameter}) in place. Returns a record a step, and the first step's raw gradients."""
    optimizer = torch.optim.AdamW(trained.values(), lr=peak_lr, weight_decay=WEIGHT_DECAY, foreach=False)
    steps, first_gradients = [], {}
    for step, batches in enumerate(windows):
        counted = sum(label != -100 for rows in batches for row in rows for label in row["labels"][1:])
        total = 0.0
        for rows in batches:
            ids, labels, mask = padded(rows)
            loss, _ = tiny.token_losses(model(ids, attention_mask=mask).logits, labels)
            (loss / counted).backward()
            total += loss.item()
        if step == 0:
            first_gradients = {name: weight.grad.clone() for name, weight in trained.items()}
            assert all(float(gradient.abs().max()) > 0 for gradient in first_gradients.values())
        norm = float(torch.nn.utils.clip_grad_norm_(list(trained.values()), clip, foreach=False))
        lr = peak_lr * tiny.warmup_cosine(step, WARMUP, len(windows))
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        optimizer.zero_grad()
        steps.append({"loss": total / counted, "grad_norm": norm, "lr": lr, "tokens": counted})
    assert any(record["grad_norm"] > clip for record in steps), "the clip binds nowhere"
    return steps, first_gradients


def write(folder, windows, peak_lr, clip, steps, tensors, **more):
    recipe = {
        "lr": peak_lr,
        "schedule": "cosine",
        "warmup_steps": WARMUP,
        "weight_decay": WEIGHT_DECAY,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "clip": clip,
        "accum": 2,
        "batch": 2,
    }
    tiny.save_json(folder, "data.json", {"recipe": recipe | more, "windows": windows})
    tiny.save_json(folder, "expected.json", {key: [record[key] for record in steps] for key in steps[0]})
    tiny.save_tensors(folder, tensors)


def adapters(model):
    """The adapter's parameters under PEFT's file names; the tensors are the live parameters."""
    return {
        name.replace(".default.", "."): weight for name, weight in model.named_parameters() if weight.requires_grad
    }


def start_adapter(base, folder, seed):
    """A random adapter, B not zero so that A receives a gradient from the first step on; saved as PEFT saves it."""
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=LINEARS, task_type="CAUSAL_LM")
    model = get_peft_model(base, config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(adapters(model).items()):
            scale = 0.05 if "lora_B" in name else 0.2
            weight.copy_(scale * torch.randn(weight.shape, generator=draw))
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    tidy_adapter_config(folder)
    return model


def tidy_adapter_config(folder):
    """No path of the machine that made the file, lists in one order."""
    path = Path(folder) / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = "model"
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def lora_run(case, base, seed, extra):
    """Ten steps of LoRA on `base`; the model folder must already be written."""
    folder = tiny.GOLDEN / case
    model = start_adapter(base, folder / "adapter", seed).train()
    saved = get_peft_model_state_dict(model)
    assert set(saved) == set(adapters(model)), "names as PEFT writes them"

    draw = torch.Generator().manual_seed(seed + 1)
    windows = [window(draw, base.config.vocab_size) for _ in range(10)]
    steps, gradients = trajectory(model, adapters(model), windows, 2e-2, CLIP)
    tensors = {f"grad.{name}": value for name, value in gradients.items()}
    tensors |= {f"final.{name}": value for name, value in adapters(model).items()}
    write(folder, windows, 2e-2, CLIP, steps, tensors | extra, rank=RANK, alpha=ALPHA)

    # the adapter that was written is the one that was trained from
    again = PeftModel.from_pretrained(tiny.load(folder / "model"), folder / "adapter")
    assert set(get_peft_model_state_dict(again)) == set(saved)


def lora_case():
    folder = tiny.fresh("train-lora")
    tiny.save_model(tiny.llama(seed=40), folder / "model")
    lora_run("train-lora", tiny.load(folder / "model"), seed=41, extra={})


def qlora_case():
    """Sizes whose matrices do not divide into whole blocks, and whose rows do not either."""
    folder = tiny.fresh("train-qlora")
    sizes = dict(hidden_size=36, intermediate_size=50, num_attention_heads=3, num_key_value_heads=1)
    tiny.save_model(tiny.llama(seed=50, **sizes), folder / "model")
    base = tiny.load(folder / "model")
    dequantised = {}
    with torch.no_grad():
        for name, module in base.named_modules():
            if name.split(".")[-1] in LINEARS:
                weight = nf4.through_nf4(module.weight)
                module.weight.copy_(weight)
                dequantised[f"dequantised.{name}.weight"] = weight
    kept = {name: value for name, value in dequantised.items() if ".layers.0." in name}
    lora_run("train-qlora", base, seed=51, extra=kept)


def full_run(case, steps, peak_lr, clip, seed, **changes):
    folder = tiny.fresh(case)
    tiny.save_model(tiny.llama(seed=seed, **changes), folder / "model")
    model = tiny.load(folder / "model").train()
    trained = dict(model.named_parameters())
    draw = torch.Generator().manual_seed(seed + 1)
    windows = [window(draw, model.config.vocab_size) for _ in range(steps)]
    records, gradients = trajectory(model, trained, windows, peak_lr, clip)
    tensors = {f"final.{name}": value for name, value in trained.items()}
    tensors |= {f"grad.{name}": value for name, value in gradients.items()}
    write(folder, windows, peak_lr, clip, records, tensors)


def make():
    lora_case()
    qlora_case()
    full_run("train-full", steps=10, peak_lr=5e-3, clip=CLIP, seed=60)
    full_run(
        "train-full-untied-bias",
        steps=5,
        peak_lr=5e-3,
        clip=9.5,  # binds at some steps and not at others
        seed=62,
        tie_word_embeddings=False,
        attention_bias=True,
        mlp_bias=True,
    )
