#!/usr/bin/env python3
"""Tokens a second of `athanor dataset build` by one process and by two that share the work, and its peak memory by size of text.

    bench/dataset_build.py PROGRAM TOKENIZER TEXT... [--megabytes N] [--rounds N]

Documents of 500 to 8,000 characters are drawn from TEXT until a JSON-lines file has N megabytes (400), another a quarter of that. Each
process has one thread. Rounds are interleaved. Beside the time by the clock stands the processor time of the process that had most of
it: what two idle cores would take, which a machine that others use does not show. All results must be the same bytes.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

SUFFIXES = (".bin", ".idx", ".text_bytes", ".sources", ".meta.json")


def write_text(path, text, megabytes):
    rng = random.Random(1)
    size = 0
    with open(path, "w", encoding="utf-8") as file:
        while size < megabytes * 1_000_000:
            at = rng.randrange(len(text))
            size += file.write(json.dumps({"text": text[at:at + rng.randint(500, 8000)] or "."}) + "\n")


def build(program, tokenizer, text, prefix, processes, part_size):
    """Seconds by the clock, processor seconds of the busiest process, of all, peak MiB of one, tokens."""
    command = [program, "dataset", "build", "--tokenizer", tokenizer, "--threads", "1", "--part-size", str(part_size), "--output", prefix, text]
    start = time.time()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(processes)]
    used = []
    for process in running:
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"dataset_build: {' '.join(command)}: status {status}")
        used.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    with open(prefix + ".meta.json", encoding="utf-8") as file:
        tokens = json.load(file)["tokens"]
    return time.time() - start, max(u[0] for u in used), sum(u[0] for u in used), max(u[1] for u in used), tokens


def files(prefix):
    return [open(prefix + suffix, "rb").read() for suffix in SUFFIXES]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("text", nargs="+")
    arguments = parser.parse_args()
    text = "".join(open(path, encoding="utf-8").read() for path in arguments.text)
    with tempfile.TemporaryDirectory() as folder:
        large, small = os.path.join(folder, "large.jsonl"), os.path.join(folder, "small.jsonl")
        write_text(large, text, arguments.megabytes)
        write_text(small, text, arguments.megabytes / 4)
        part = 16 << 20
        kinds = {"whole": (large, 1, 1 << 40), "one": (large, 1, part), "two": (large, 2, part), "small": (small, 1, part)}
        seen = {name: [] for name in kinds}
        for _ in range(arguments.rounds):
            for name, (source, processes, part_size) in kinds.items():
                seen[name].append(build(arguments.program, arguments.tokenizer, source, os.path.join(folder, name), processes, part_size))
        if not files(os.path.join(folder, "whole")) == files(os.path.join(folder, "one")) == files(os.path.join(folder, "two")):
            sys.exit("dataset_build: the results differ")
        middle = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in seen.items()}
        for name, what in (("whole", "1 process, not in parts"), ("one", "1 process"), ("two", "2 processes")):
            clock, busiest, total, peak, tokens = middle[name]
            print(f"{what:24} {tokens / clock / 1e6:6.2f} M tokens/s by the clock, {tokens / busiest / 1e6:6.2f} M by processor time of the "
                  f"busiest ({busiest:.2f} s of {total:.2f}), peak {peak:.0f} MiB each")
        def ratio(column):
            rows = sorted(a[column] / b[column] for a, b in zip(seen["one"], seen["two"]))
            return f"{statistics.median(rows):.2f} ({rows[0]:.2f} to {rows[-1]:.2f})"
        print(f"two over one: {ratio(0)} by the clock, {ratio(1)} by processor time of the busiest")
        print(f"peak at {arguments.megabytes} over {arguments.megabytes / 4:.0f} MB: {middle['one'][3] / middle['small'][3]:.3f}")


main()
