#!/usr/bin/python3
"""Causal attention, forward and backward, in PyTorch on the CPU: a peer for bench/compare.sh.

    attention_torch.py [--batch 1 --heads 12 --seq 2048 --head-dim 64 --dtype bf16 --threads 2 --steps 5]

Takes the fastest of what PyTorch 1.13 offers: softmax(q k^T / sqrt(d), causal) v in its operations, with the
scores in bf16 or f32, and its own scaled dot-product attention. Prints one JSON line.
"""
import argparse
import json
import math
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
for option, default in (("batch", 1), ("heads", 12), ("seq", 2048), ("head-dim", 64), ("threads", 2), ("steps", 5)):
    parser.add_argument("--" + option, type=int, default=default)
ARGS = parser.parse_args()
torch.set_num_threads(ARGS.threads)
torch.manual_seed(1)

HIDDEN = torch.triu(torch.ones(ARGS.seq, ARGS.seq, dtype=torch.bool), 1)


def in_operations(q, k, v):
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    return F.softmax(scores.masked_fill(HIDDEN, float("-inf")), -1) @ v


def scores_in_f32(q, k, v):
    scores = (q @ k.transpose(-2, -1)).float() / math.sqrt(q.size(-1))
    return F.softmax(scores.masked_fill(HIDDEN, float("-inf")), -1).to(v.dtype) @ v


def its_own(q, k, v):
    return F._scaled_dot_product_attention(q, k, v, is_causal=True)[0]


def seconds_of(way):
    """The median of the steps, forward and backward; the first does not count."""
    dtype = torch.bfloat16 if ARGS.dtype == "bf16" else torch.float32
    shape = (ARGS.batch, ARGS.heads, ARGS.seq, ARGS.head_dim)
    times = []
    for step in range(ARGS.steps + 1):
        q, k, v = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(3))
        d_o = torch.randn(shape).to(dtype)
        start = time.perf_counter()
        way(q, k, v).backward(d_o)
        if step:
            times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


ways = [in_operations] + ([scores_in_f32] if ARGS.dtype == "bf16" else [])
if hasattr(F, "_scaled_dot_product_attention"):
    ways.append(its_own)
found = {way.__name__: seconds_of(way) * 1e3 for way in ways}
best = min(found, key=found.get)
print(json.dumps({"peer": f"PyTorch {torch.__version__}", "dtype": ARGS.dtype, "best": best, "ms": found[best],
                  "all_ms": found}))
