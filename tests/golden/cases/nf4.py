"""NF4 as bitsandbytes stores it: packed codes, block scales, the doubled scales, and the values that come back.

bitsandbytes makes the references and a second, plain implementation of the rule below must agree to the bit, or nothing is
written. Four places where the CPU code of bitsandbytes 0.50 leaves the rule of its GPU code are therefore kept out of the inputs:
a value one f32 unit above the last threshold (its CPU code rounds that threshold up), values at a threshold in a short block (the
CPU code divides by the scale, the GPU code multiplies by its reciprocal), a short block of zeros (its scale becomes 1e-38), and
codes of doubled scales where the second scale is zero (any code will do).
"""

import numpy as np
import torch
from bitsandbytes import functional as bnb

from . import tiny

CODES = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    dtype=np.float32,
)
THRESHOLDS = np.array(
    [
        -0.8480964004993439,
        -0.6106329262256622,
        -0.4599952697753906,
        -0.33967943489551544,
        -0.23460740596055984,
        -0.13791173323988914,
        -0.045525018125772476,
        0.03979014977812767,
        0.1202552504837513,
        0.2035212516784668,
        0.2920137718319893,
        0.3893125355243683,
        0.5016634166240692,
        0.6427869200706482,
        0.8614784178118011,
    ],
    dtype=np.float32,
)


def plain_quantise(values, block):
    """Packed codes and block scales of a flat f32 array; the rule in a dozen lines."""
    codes, scales = [], []
    for start in range(0, len(values), block):
        piece = values[start : start + block]
        scale = np.abs(piece).max()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = piece * (np.float32(1) / scale) if scale > 0 else np.zeros_like(piece)
        codes.extend((scaled[:, None] > THRESHOLDS[None, :]).sum(1).tolist())
        scales.append(scale)
    if len(codes) % 2:
        codes.append(7)
    codes = np.array(codes, dtype=np.uint8)
    return codes[0::2] << 4 | codes[1::2], np.array(scales, dtype=np.float32)


def plain_dequantise(packed, scales, length, block):
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[:length]
    return CODES[codes] * np.repeat(scales, block)[:length]


def quantise(tensor, block=64, double=False):
    """Always flat: bitsandbytes 0.50 misreads a matrix on a CPU when its rows are not whole blocks."""
    flat = tensor.detach().float().contiguous().reshape(-1)
    return bnb.quantize_4bit(flat, blocksize=block, quant_type="nf4", compress_statistics=double)


def through_nf4(tensor):
    """The values that a quantised tensor computes with, in f32."""
    packed, state = quantise(tensor)
    back = bnb.dequantize_4bit(packed, state).reshape(-1).float()
    flat = tensor.detach().float().reshape(-1).numpy()
    assert np.array_equal(back.numpy(), plain_dequantise(*plain_quantise(flat, 64), len(flat), 64))
    return back.reshape(tensor.shape)


def inputs():
    """Named flat or two-dimensional tensors, each with a reason to be here."""
    draw = torch.Generator().manual_seed(90)

    def normal(*shape, scale=0.05, draw=draw):
        return scale * torch.randn(*shape, generator=draw)

    # its own seed: with this one no doubled scale lies at a midpoint
    large = normal(140, 128, draw=torch.Generator().manual_seed(91)) * (1 + torch.arange(140.0)[:, None] / 8)

    zero_block = normal(192)
    zero_block[64:128] = 0
    thresholds = torch.zeros(64)
    thresholds[0] = 1.0
    thresholds[1:16] = torch.from_numpy(THRESHOLDS)
    thresholds[16:30] = torch.nextafter(torch.from_numpy(THRESHOLDS[:14]), torch.tensor(9.0))
    thresholds[30] = 0.8614786
    thresholds[31:46] = torch.nextafter(torch.from_numpy(THRESHOLDS), torch.tensor(-9.0))
    thresholds[46:62] = torch.from_numpy(CODES)
    thresholds[62], thresholds[63] = -0.0, -1.0
    scaled_thresholds = thresholds * 0.37
    scaled_thresholds[15] = 0.1
    extremes = normal(128)
    extremes[0], extremes[1] = 3.0e38, -2.0e38
    extremes[64], extremes[65], extremes[66] = 1.2e-38, -4e-39, 1e-45
    extremes[67:] = 0
    return {
        "whole": normal(256),
        "one": torch.tensor([-0.37]),
        "short63": normal(63),
        "odd65": normal(65),
        "odd1001": normal(1001),
        "rows": normal(13, 40),
        "zero_block": zero_block,
        "all_zero": torch.zeros(128),
        "thresholds": thresholds,
        "scaled_thresholds": scaled_thresholds,
        "extremes": extremes,
        # all below the smallest normal, yet with a finite reciprocal
        "denormals": torch.full((64,), 2.0e-39) * torch.linspace(-4, 5, 64),
        "outlier": torch.cat([normal(63, scale=0.001), torch.tensor([40.0])]),
        "large": large,  # more than 256 scales at block 64
    }


def make():
    folder = tiny.fresh("nf4")
    tensors, summary = {}, {}
    for name, values in inputs().items():
        tensors[f"{name}.values"] = values
        for block in (64, 128):
            if name == "scaled_thresholds" and block > values.numel():
                continue  # the CPU code divides in a short block, the GPU code multiplies by the reciprocal
            key = f"{name}.b{block}"
            packed, state = quantise(values, block)
            packed = packed.reshape(-1)
            back = bnb.dequantize_4bit(packed.reshape(-1, 1), state).reshape(-1)
            flat = values.reshape(-1).numpy()
            plain_packed, plain_scales = plain_quantise(flat, block)
            plain_back = plain_dequantise(plain_packed, plain_scales, len(flat), block)
            assert np.array_equal(plain_packed, packed.numpy()), f"{key}: codes"
            assert np.array_equal(plain_scales, state.absmax.numpy()), f"{key}: scales"
            assert np.array_equal(plain_back, back.numpy()), f"{key}: values"
            summary[key] = {"elements": len(flat), "block": block}
            tensors[f"{key}.codes"] = packed
            tensors[f"{key}.absmax"] = state.absmax
            tensors[f"{key}.dequantised"] = back

            if name in ("large", "odd1001", "short63", "all_zero", "zero_block"):
                packed2, double = quantise(values, block, double=True)
                assert torch.equal(packed2.reshape(-1), packed)
                restored = bnb.dequantize_blockwise(double.absmax, double.state2) + double.offset
                if bool((double.state2.absmax > 0).all()):
                    tensors[f"{key}.double.codes8"] = double.absmax
                    nearest = nearest_codes(state.absmax, double)
                    summary[key]["double_codes_off_nearest"] = int((nearest != double.absmax.long()).sum())
                tensors[f"{key}.double.absmax2"] = double.state2.absmax
                tensors[f"{key}.double.offset"] = double.offset.reshape(1)
                tensors[f"{key}.double.absmax"] = restored
                tensors[f"{key}.double.dequantised"] = bnb.dequantize_4bit(packed2, double).reshape(-1)
                tensors["map8"] = double.state2.code
    tiny.save_tensors(folder, tensors)
    tiny.save_json(folder, "expected.json", summary)


def nearest_codes(absmax, double):
    """Codes by true distance in f64: where bitsandbytes differs, the value lies at a midpoint."""
    block = double.state2.blocksize
    codes = []
    for index in range(0, len(absmax), block):
        piece = (absmax[index : index + block] - double.offset).double()
        scaled = piece / double.state2.absmax[index // block].double().clamp_min(1e-300)
        codes.append((scaled[:, None] - double.state2.code.double()[None, :]).abs().argmin(1))
    return torch.cat(codes)
