#!/usr/bin/env python3
"""Two builds of the program beside each other: is the second one slower?

    bench/before_after.py BEFORE AFTER [--pairs 15] [--text FILE] [WORK ...]

BEFORE and AFTER are two `athanor` programs. Each pair runs both, in an order that alternates; a work's ratio is speed after over
speed before. Printed are the geometric mean of the ratios, its 95 % interval (Student's t on logarithms) and the width of that
interval, one line a work and one JSON line with every pair for bench/results. Works: bf16 and f32 (steps of gpt2-124m, 4 x 256),
tinyshakespeare (bench/tinyshakespeare.toml, 300 steps on one thread), ranks and ranks4 (the same on two and four ranks), start
(starts in a second: from the process to the end of a run of one step, its checkpoint included), start-ranks (the same on two
ranks). All but bf16 and f32 train on the text that --text names, else on tinyshakespeare.txt in the folder ATHANOR_TEST_DATA. --config-before names the
config of the first program where its keys have other names. --snapshots OFF SLOTS gives each of the two its snapshot.mode,
so that BEFORE and AFTER may be one program; "-" gives none, for a program that has no such setting.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median, stdev

HERE = Path(__file__).resolve().parent
T_975 = {2: 4.303, 4: 2.776, 7: 2.365, 9: 2.262, 14: 2.145, 19: 2.093, 24: 2.064, 29: 2.045, 39: 2.023}  # by degrees of freedom


def run(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"before_after: {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def bench_step(dtype, steps):
    def speed(program, _, snapshot):
        command = [program, "bench", "step", "--preset", "gpt2-124m", "--batch", 4, "--seq", 256, "--dtype", dtype,
                   "--steps", steps, "--json"] + (["--snapshot", snapshot] if snapshot else [])
        return 1000.0 / run(command, HERE)["step_ms"]
    return speed


def tinyshakespeare(ranks, steps):
    """Steps in a second, the median of this process; with one step, processes in a second."""
    def speed(program, setting, snapshot):
        config, tokens = setting["config"][program], 12 * 64
        micro = "micro_batch_size" if "micro_batch_size" in Path(config).read_text() else "micro_batch"
        with tempfile.TemporaryDirectory() as folder:
            run_words = ["train", config, "--json"]
            for key in (f"data.channels.shakespeare.path={setting['text']}", f"data.tokenizer={setting['tokenizer']}",
                        f"train.runs={folder}", f"train.steps={steps}", "train.threads=1",
                        f"train.{micro}={12 // ranks}"):
                run_words += ["--set", key]
            run_words += ["--set", f"snapshot.mode={snapshot}"] if snapshot else []
            words = [program] + (["launch", "-n", ranks, "--json", "--"] if ranks > 1 else []) + run_words
            before = time.monotonic()
            tokens_per_second = run(words, folder)["tokens_per_second"]
            return 1.0 / (time.monotonic() - before) if steps == 1 else tokens_per_second / tokens
    return speed


WORKS = {"bf16": bench_step("bf16", 6), "f32": bench_step("f32", 6), "tinyshakespeare": tinyshakespeare(1, 300),
         "ranks": tinyshakespeare(2, 300), "ranks4": tinyshakespeare(4, 300), "start": tinyshakespeare(1, 1),
         "start-ranks": tinyshakespeare(2, 1)}


def interval(ratios):
    """The geometric mean and the ends of its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    freedom = len(logs) - 1
    t = T_975[max(known for known in T_975 if known <= max(freedom, 2))]
    half = t * stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=os.path.realpath)
    parser.add_argument("after", type=os.path.realpath)
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--text")
    parser.add_argument("--config-before", type=os.path.realpath)
    parser.add_argument("--snapshots", nargs=2, default=[None, None], metavar="MODE")
    args = parser.parse_intermixed_args()
    if unknown := [name for name in args.works if name not in WORKS]:
        sys.exit(f"before_after: no work '{unknown[0]}', expected one of {', '.join(WORKS)}")
    if args.pairs < 3:
        sys.exit(f"before_after: --pairs: got {args.pairs}, expected at least 3")
    modes = [None if mode == "-" else mode for mode in args.snapshots]
    programs, config = (args.before, args.after), str(HERE / "tinyshakespeare.toml")
    with tempfile.TemporaryDirectory() as folder:
        text = args.text or os.path.join(os.environ.get("ATHANOR_TEST_DATA", ""), "tinyshakespeare.txt")
        setting = {"text": os.path.realpath(text), "tokenizer": os.path.join(folder, "char.json"),
                   "config": {args.after: config, args.before: args.config_before or config}}
        if any(name not in ("bf16", "f32") for name in args.works):
            if not os.path.exists(setting["text"]):
                sys.exit(f"before_after: no text at {setting['text']}: --text or ATHANOR_TEST_DATA names it")
            subprocess.run([args.after, "tokenizer", "train", "--type", "char", "--output", setting["tokenizer"],
                            setting["text"]], check=True, capture_output=True)
        for name in args.works:
            pairs = []
            for number in range(args.pairs):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                speeds = {which: WORKS[name](programs[which], setting, modes[which]) for which in order}
                pairs.append((speeds[0], speeds[1]))
                print(f"\r{name}: pair {number + 1} of {args.pairs}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            ratio, low, high = interval([after / before for before, after in pairs])
            print(f"{name}: {ratio:.4f} times as fast, 95 % interval {low:.4f} to {high:.4f} (width {100 * (high - low):.1f} %), "
                  f"medians {median(b for b, _ in pairs):.2f} and {median(a for _, a in pairs):.2f} steps/s")
            print(json.dumps({"work": name, "pairs": pairs, "ratio": ratio, "low": low, "high": high}), flush=True)


if __name__ == "__main__":
    main()
