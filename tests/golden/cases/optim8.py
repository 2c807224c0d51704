"""bitsandbytes' 8-bit AdamW on one parameter: values, codes and scales after each of a few steps.

Its C library for CPUs rounds some values to a code that is not the nearest (a search of its own, and a first code that it
takes to be -1, of the unsigned map too); its default and CUDA backends take the nearest. Their rule, by the midpoints
between codes, is put in its place here.
"""

import bitsandbytes as bnb
import torch
from bitsandbytes.backends.cpu import ops

from . import tiny


def nearest(values, code, absmax_out, codes_out, blocksize):
    """`quantize_blockwise` as bitsandbytes' default backend has it."""
    for start in range(0, values.numel(), blocksize):
        block = values.reshape(-1)[start : start + blocksize]
        absmax = block.abs().max()
        scaled = torch.clamp(block * (1.0 / absmax.clamp(min=1e-38)), -1, 1)
        codes_out[start : start + blocksize] = torch.bucketize(scaled, (code[:-1] + code[1:]) / 2).to(torch.uint8)
        absmax_out[start // blocksize] = absmax


ops._quant_blockwise_fp32_direct = nearest

VALUES, STEPS = 4500, 5  # 17 whole blocks of 256 and a short one


def make():
    folder = tiny.fresh("adamw8")
    draw = torch.Generator().manual_seed(55)
    param = torch.nn.Parameter(torch.randn(VALUES, generator=draw))
    optimizer = bnb.optim.AdamW8bit([param], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, min_8bit_size=4096)
    tensors = {"start": param.detach().clone()}
    for step in range(STEPS):
        # Magnitudes over many powers of ten, some zeros, and a block of nothing but zeros.
        grad = torch.randn(VALUES, generator=draw) * 10 ** torch.empty(VALUES).uniform_(-5, 0, generator=draw)
        grad[torch.rand(VALUES, generator=draw) < 0.05] = 0
        grad[512:768] = 0
        param.grad = grad
        optimizer.step()
        state = optimizer.state[param]
        tensors[f"grad.{step}"] = grad.clone()
        tensors[f"param.{step}"] = param.detach().clone()
    tensors["m.codes"], tensors["m.absmax"] = state["state1"].clone(), state["absmax1"].clone()
    tensors["v.codes"], tensors["v.absmax"] = state["state2"].clone(), state["absmax2"].clone()
    tensors["signed"], tensors["unsigned"] = state["qmap1"].clone(), state["qmap2"].clone()
    tiny.save_tensors(folder, tensors)
