"""Merged weights in bf16: the sum in f32, rounded once, for a dense and for a quantised base."""

import torch
from safetensors.torch import save_file

from . import nf4, tiny, train


def near_a_midpoint(exact):
    """How many values an f32 sum in another order could round the other way, two f32 units of doubt allowed."""
    low = (exact.float().view(torch.int32) & 0xFFFF).long()
    return int(((low - 0x8000).abs() <= 2).sum())


def merged_weights(base, model, quantised):
    """{name: bf16 weight} for every linear with an adapter, and the number of doubtful roundings among them."""
    adapter = {name: weight.detach() for name, weight in train.adapters(model).items()}
    merged, doubtful = {}, 0
    for name, weight in base.items():
        key = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{key}.lora_A.weight" not in adapter:
            continue
        start = nf4.through_nf4(weight) if quantised else weight.float()
        a, b = adapter[f"{key}.lora_A.weight"], adapter[f"{key}.lora_B.weight"]
        exact = start.double() + (train.ALPHA / train.RANK) * (b.double() @ a.double())
        rounded = (start + (train.ALPHA / train.RANK) * (b @ a)).to(torch.bfloat16)
        doubtful += near_a_midpoint(exact) + int((exact.float().to(torch.bfloat16) != rounded).sum())
        merged[name] = rounded
    return merged, doubtful


def make():
    """Adapters are drawn until no sum lies at a rounding's edge: then the files can be compared bit for bit."""
    folder = tiny.fresh("merged")
    model = tiny.llama(seed=70, hidden_size=28, intermediate_size=44, num_attention_heads=2, num_key_value_heads=1)
    tiny.save_model(model.to(torch.bfloat16), folder / "model")
    base = dict(tiny.load(folder / "model").state_dict())
    for seed in range(71, 400):
        adapted = train.start_adapter(tiny.load(folder / "model"), folder / "adapter", seed)
        dense, doubt = merged_weights(base, adapted, quantised=False)
        from_nf4, more_doubt = merged_weights(base, adapted, quantised=True)
        if doubt + more_doubt == 0:
            break
    else:
        raise AssertionError("no adapter without a doubtful rounding")

    # PEFT's own merge agrees up to one bf16 unit
    for name, weight in adapted.merge_and_unload().state_dict().items():
        if name in dense:
            assert (weight.to(torch.bfloat16).float() - dense[name].float()).abs().max() < 2**-6, name

    tensors = {f"dense.{name}": weight for name, weight in dense.items()}
    tensors |= {f"nf4.{name}": weight for name, weight in from_nf4.items()}
    save_file({name: tensors[name].contiguous() for name in sorted(tensors)}, folder / "expected.safetensors")
    tiny.save_json(
        folder,
        "expected.json",
        {"scale": train.ALPHA / train.RANK, "adapter_seed": seed, "tensors_a_base": len(dense)},
    )
