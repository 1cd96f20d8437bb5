#!/usr/bin/env python3
"""Does a rank that writes 100 MB/s to its standard error delay its steps?

    bench/log_flood.py ATHANOR [--pairs 8] [--seconds 5] [--text FILE]

One rank trains bench/tinyshakespeare.toml on one thread under `athanor launch`; on its standard error somebody writes lines of
100 bytes, then lines of 10 MB, at 100 MB/s, in windows between quiet ones. Printed are the median of the ratios of a step in a
flood over one in the quiet window before it, the rate that was taken, and what the launcher says that it dropped. At the end a
last line is written, and the rank is killed: the kept output of it must be 64 KiB that end with that line. The text is
tinyshakespeare.txt in the folder ATHANOR_TEST_DATA, or FILE.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
RATE, PIECE = 100e6, 1 << 20
LINES = {"lines of 100 bytes": (b"x" * 99 + b"\n") * (PIECE // 100), "lines of 10 MB": None}


def rank_of(launcher):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "environ").read_bytes().split(b"\0")
            if b"ATHANOR_LOG_FLOOD=" + str(launcher).encode() in words and b"RANK=0" in words:
                return int(folder.name)
        except OSError:
            pass
    return None


def steps_of(metrics, first):
    lines = metrics.read_text().splitlines()
    return len(lines), [json.loads(line)["step_seconds"] for line in lines[first:]]


def flood(fd, name, seconds):
    start, written, line = time.monotonic(), 0, 0
    while time.monotonic() - start < seconds:
        piece = LINES[name]
        if piece is None:
            line += PIECE
            piece = b"y" * (PIECE - 1) + (b"\n" if line % (10 * PIECE) == 0 else b"y")
        written += os.write(fd, piece)
        ahead = written / RATE - (time.monotonic() - start)
        if ahead > 0:
            time.sleep(ahead)
    os.write(fd, b"\n")
    return written / (time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("athanor")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--text", default=os.path.join(os.environ.get("ATHANOR_TEST_DATA", ""), "tinyshakespeare.txt"))
    given = parser.parse_args()
    athanor, text = Path(given.athanor).resolve(), Path(given.text).resolve()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([athanor, "tokenizer", "train", "--type", "char", "--output", "char.json", text], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        words = [athanor, "launch", "-n", "1", "--", "train", HERE / "tinyshakespeare.toml"]
        for setting in (f"data.channels.shakespeare.path={text}", f"data.tokenizer={folder}/char.json", f"train.runs={folder}/runs",
                        "train.name=flood", "train.steps=100000000", "train.threads=1", "train.eval_every=0",
                        "checkpoint.every_steps=0", "launch.max_restarts=0"):
            words += ["--set", setting]
        with open(os.path.join(folder, "errors"), "wb") as errors:
            job = subprocess.Popen(["sh", "-c", 'ATHANOR_LOG_FLOOD=$$ exec "$@"', "sh", *map(str, words)], cwd=folder,
                                   stdout=subprocess.DEVNULL, stderr=errors)
        metrics = Path(folder, "runs/flood/metrics.jsonl")
        while job.poll() is None and not (metrics.exists() and steps_of(metrics, 0)[0] > 20):
            time.sleep(0.1)
        if job.poll() is not None:
            sys.exit("log_flood: the job ended: " + Path(folder, "errors").read_text()[-1000:])
        rank = rank_of(job.pid)
        fd = os.open(f"/proc/{rank}/fd/2", os.O_WRONLY)
        for name in LINES:
            ratios, rates = [], []
            for _ in range(given.pairs):
                first, _ = steps_of(metrics, 0)
                time.sleep(given.seconds)
                first, quiet = steps_of(metrics, first)
                rates.append(flood(fd, name, given.seconds))
                _, loud = steps_of(metrics, first)
                ratios.append(median(loud) / median(quiet))
            print(f"{name}: a step takes {median(ratios):.4f} of one in quiet ({min(ratios):.4f} to {max(ratios):.4f}, "
                  f"{given.pairs} pairs), {median(rates) / 1e6:.0f} MB/s were taken")
        last = b"the last words of this rank\n"
        flood(fd, "lines of 100 bytes", 1.0)
        os.write(fd, last)
        os.kill(rank, signal.SIGKILL)
        job.wait()
        kept = Path(folder, "runs/flood/logs/rank0.output").read_bytes()
        said = Path(folder, "errors").read_text(errors="replace")
        print(f"kept of the rank: {len(kept)} bytes, {'' if kept.endswith(last) else 'NOT '}with its last line; the launcher "
              f"wrote {len(said) / 1e6:.2f} MB itself")
        print("\n".join(line for line in said.splitlines() if "too fast" in line or "dropped" in line))


if __name__ == "__main__":
    main()
