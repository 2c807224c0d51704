#!/usr/bin/env python3
"""Opens what tunepipe saved in the real libraries, and holds their logits against ours.

    check_outputs.py --adapter out/adapter --base models/x --ours-logits ours.safetensors      through PEFT
    check_outputs.py --merged out/merged --ours-logits ours.safetensors                        through transformers

The logits file is safetensors with `input_ids` (1 x T, or T; any integer type) and `logits` (T x V, f32). Computes in f32. Prints
the largest absolute difference; exit status 0 within --atol, 1 over it or when something does not load, 2 for wrong usage.
"""

import argparse
import os
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def load_base(folder):
    """A dense model in f32. A tensor that is missing, left over or of another shape is an error, not a warning."""
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report.get(kind):
            raise ValueError(f"{folder}: {kind.replace('_', ' ')}: {sorted(map(str, report[kind]))}")
    return model


def load_adapter(base, folder):
    """PEFT warns about keys that do not fit and goes on with the plain base model; here that is an error."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(missing|unexpected).*adapter keys.*")
        model = PeftModel.from_pretrained(base, folder)
    saved = load_file(os.path.join(folder, "adapter_model.safetensors"))
    held = {name.replace(".default.", "."): value for name, value in model.named_parameters() if "lora_" in name}
    if set(saved) != set(held):
        raise ValueError(f"{folder}: keys that PEFT does not have, or has besides: {sorted(set(saved) ^ set(held))}")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", help="folder with adapter_config.json and adapter_model.safetensors; needs --base")
    parser.add_argument("--base", help="folder of the model the adapter belongs to")
    parser.add_argument("--merged", help="folder of a whole model")
    parser.add_argument("--ours-logits", required=True, help="safetensors file with input_ids and logits")
    parser.add_argument("--atol", type=float, default=1e-4, help="largest difference allowed (default: %(default)s)")
    options = parser.parse_args()
    if bool(options.adapter) == bool(options.merged) or bool(options.adapter) != bool(options.base):
        parser.error("give either --adapter with --base, or --merged")

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        ours = load_file(options.ours_logits)
        ids, logits = ours["input_ids"].to(torch.int64).reshape(1, -1), ours["logits"].float()
        model = load_base(options.merged or options.base)
        if options.adapter:
            model = load_adapter(model, options.adapter)
        with torch.no_grad():
            theirs = model.eval()(ids).logits[0].float()
        if theirs.shape != logits.shape:
            raise ValueError(f"theirs are {tuple(theirs.shape)}, ours {tuple(logits.shape)}")
    except Exception as error:
        print(f"check_outputs: {type(error).__name__}: {error}", file=sys.stderr)
        return 1

    difference = (theirs - logits).abs()
    worst = float(difference.max())
    print(f"tokens            {theirs.shape[0]}")
    print(f"largest logit     {float(theirs.abs().max()):.4f}")
    print(f"max abs diff      {worst:.3e}")
    print(f"mean abs diff     {float(difference.mean()):.3e}")
    print(f"same best token   {int((theirs.argmax(-1) == logits.argmax(-1)).sum())} of {theirs.shape[0]}")
    # not `worst > atol`: a NaN must fail too
    within = worst <= options.atol
    print(f"{'within' if within else 'OVER'} {options.atol:g}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
