#!/usr/bin/python3
"""Trains a small character-level GPT-2 in PyTorch, as a peer for quality and wall time on the same text.

    tinyshakespeare_torch.py --text tinyshakespeare.txt [--seed 1] [--threads 2] [--steps 2000]

4 layers, 4 heads, width 128, context 64, batch 12, tied, no dropout, no bias; AdamW (0.9, 0.99), weight decay
0.1 on matrices, clip 1, learning rate 1e-3 -> 1e-4 (cosine) after 100 steps of warmup; f32. The last 10 % of
the characters are held out; the loss on all of them is taken once, after training, in adjacent windows of 64.
Prints one JSON line; progress goes to standard error.
"""
import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

CONTEXT, BATCH, WARMUP, LR, MIN_LR = 64, 12, 100, 1e-3, 1e-4


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    return parser.parse_args()


ARGS = parse_args()
os.environ["OPENBLAS_NUM_THREADS"] = str(ARGS.threads)  # read when torch loads the library
sys.dont_write_bytecode = True
import torch

from torch_models import decay_groups, initial_params, losses_of


def learning_rate(step, steps):
    """The rate of step 0 ... steps - 1."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    progress = (step - WARMUP) / max(1, steps - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * progress)) * (LR - MIN_LR)


def load(path):
    """Returns (vocabulary size, training ids [N], held-out ids [M])."""
    text = path.read_text(encoding="utf-8")
    ids = {character: i for i, character in enumerate(sorted(set(text)))}
    data = torch.tensor([ids[character] for character in text])
    cut = len(data) * 9 // 10
    return len(ids), data[:cut], data[cut:]


def random_batch(data, generator):
    starts = torch.randint(len(data) - CONTEXT, (BATCH,), generator=generator)
    rows = torch.stack([data[s:s + CONTEXT + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def held_out_loss(params, config, data):
    """Mean over every character of data but the first; each window starts with an empty context."""
    count = len(data) - 1
    whole = count // CONTEXT * CONTEXT
    tokens, targets = data[:whole].view(-1, CONTEXT), data[1:whole + 1].view(-1, CONTEXT)
    total = sum(float(losses_of(params, config, x, y).double().sum())
                for x, y in zip(tokens.split(64), targets.split(64)))
    if whole < count:
        rest = losses_of(params, config, data[None, whole:count], data[None, whole + 1:])
        total += float(rest.double().sum())
    return total / count, count


def blas_library():
    with open("/proc/self/maps") as maps:
        return next((Path(line.split()[-1]).resolve().name for line in maps if "blas" in line), "none")


def main():
    begin = time.perf_counter()
    torch.set_num_threads(ARGS.threads)
    vocab_size, train_data, held_out = load(ARGS.text)
    config = {"model_type": "gpt2", "vocab_size": vocab_size, "n_positions": CONTEXT, "n_embd": 128,
              "n_layer": 4, "n_head": 4, "layer_norm_epsilon": 1e-5, "bias": False}
    generator = torch.Generator().manual_seed(ARGS.seed)
    params = initial_params(config, generator, torch.float32)
    for p in params.values():
        p.requires_grad_()
    optimizer = torch.optim.AdamW(decay_groups(params, 0.1), lr=LR, betas=(0.9, 0.99))
    train_begin = time.perf_counter()
    for step in range(ARGS.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, ARGS.steps)
        optimizer.zero_grad(set_to_none=True)
        loss = losses_of(params, config, *random_batch(train_data, generator)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}", file=sys.stderr)
    train_end = time.perf_counter()
    valid_loss, valid_tokens = held_out_loss(params, config, held_out)
    print(json.dumps({
        "peer": f"PyTorch {torch.__version__} f32", "blas": blas_library(), "seed": ARGS.seed,
        "threads": ARGS.threads, "steps": ARGS.steps, "parameters": sum(p.numel() for p in params.values()),
        "train_loss_last": loss.item(), "valid_loss": valid_loss, "valid_tokens": valid_tokens,
        "train_seconds": round(train_end - train_begin, 2),
        "seconds": round(time.perf_counter() - begin, 2)}))


if __name__ == "__main__":
    main()
