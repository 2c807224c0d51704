#!/usr/bin/env python3
"""Writes the reference values in this folder with the real libraries. See README.md.

Usage: python make.py [CASE …]     forward, train, nf4, merged, texts, sizes, optim8; none: all of them
"""

import os
import sys
import warnings

# one thread and no fused choices: the same bits on every run
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
from transformers.utils import logging  # noqa: E402

from cases import forward, merged, nf4, optim8, sizes, texts, train  # noqa: E402

CASES = {"forward": forward, "train": train, "nf4": nf4, "merged": merged, "texts": texts, "sizes": sizes, "optim8": optim8}


def main(wanted):
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message="Could not find a config file in")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    for name in wanted or CASES:
        print(name)
        CASES[name].make()


if __name__ == "__main__":
    main(sys.argv[1:])
