#!/usr/bin/env python3
"""Trains a small model of each family on the CPU and on the device, 20 steps, and compares losses; the device twice.

    families.py ATHANOR CONFIG.toml          # prints a line for each family and type, and fails where one is off
"""
import json
import subprocess
import sys
import time

ATHANOR, CONFIG = sys.argv[1:]
BOUNDS = {"f32": 1e-4, "bf16": 1e-2}


def train(name, *settings):
    sets = [word for setting in (f"train.name={name}", *settings) for word in ("--set", setting)]
    start = time.time()
    subprocess.run([ATHANOR, "train", CONFIG, *sets], check=True, capture_output=True)
    with open(f"runs/{name}/metrics.jsonl", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    steps = [row for row in rows if "loss" in row and "grad_norm" in row]
    return [row["loss"] for row in steps], [row["grad_norm"] for row in steps], time.time() - start


def largest(expected, got):
    return max(abs(a - b) / abs(a) for a, b in zip(expected, got))


def main():
    failed = False
    for family in ("gpt2", "llama", "mixtral"):
        for compute, bound in BOUNDS.items():
            settings = (f"model.model_type={family}", f"precision.compute={compute}")
            name = f"{family}-{compute}"
            losses, norms, cpu_seconds = train(name + "-cpu", *settings, "train.device=cpu")
            device = train(name + "-cuda", *settings, "train.device=cuda")
            again = train(name + "-again", *settings, "train.device=cuda")
            same = device[:2] == again[:2]
            off = largest(losses, device[0])
            good = same and off < bound
            failed = failed or not good
            print(f"{name}: {len(losses)} steps, last loss {device[0][-1]:.6f} (CPU {losses[-1]:.6f}); largest difference "
                  f"{off:.2e} of a loss, {largest(norms, device[1]):.2e} of a norm; same bits twice: {same}; "
                  f"CPU {cpu_seconds:.1f} s, device {device[2]:.1f} s {'OK' if good else 'OFF'}", flush=True)
    sys.exit(failed)


main()
