#!/usr/bin/env python3
"""Megabytes a second of one core of `athanor corpus build`, whole and by stage, beside bench/corpus_plain.py.

    bench/corpus.py ATHANOR FILE.jsonl [REPEATS]

FILE has an object with "text" a line; a hundred megabytes are enough. Each stage is built in a folder of its own, by one
worker; the median of REPEATS (3). What reading and writing alone take is measured, too, and subtracted where it says so.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time


def heuristics(preset):
    return f'[[stage]]\nkind = "heuristics"\npreset = "{preset}"\n'


STAGES = {
    "reading and writing": "",
    "heuristics": heuristics("gopher") + heuristics("fineweb"),
    "minhash": '[[stage]]\nkind = "dedup"\n',
    "exact": '[[stage]]\nkind = "dedup"\nmethod = "exact"\n',
    "sentence": '[[stage]]\nkind = "dedup"\nmethod = "sentence"\n',
    "privacy": '[[stage]]\nkind = "privacy"\n',
    "language": '[[stage]]\nkind = "language"\nkeep = ["en"]\n',
    "whole": heuristics("gopher") + heuristics("c4-any-line-end") + heuristics("fineweb") + '[[stage]]\nkind = "dedup"\n',
}


def main():
    athanor, text = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    base = None
    for name, stages in STAGES.items():
        seconds = []
        for _ in range(repeats):
            folder = tempfile.mkdtemp()
            with open(folder + "/corpus.toml", "w", encoding="utf-8") as file:
                file.write(f'[corpus]\nname = "c"\nworkers = 1\n[[input]]\nchannel = "c"\npath = "{text}"\n{stages}')
            start = time.monotonic()
            subprocess.run([athanor, "corpus", "build", folder + "/corpus.toml"], check=True, capture_output=True)
            seconds.append(time.monotonic() - start)
            shutil.rmtree(folder)
        median = sorted(seconds)[repeats // 2]
        base = median if base is None else base
        size = os.path.getsize(text) / 1e6
        print(f"{name:20} {size / median:8.1f} MB/s   beyond reading and writing {size / max(median - base, 1e-3):8.1f} MB/s")
    here = os.path.dirname(os.path.realpath(__file__))
    for stage in ("heuristics", "minhash", "exact", "privacy"):
        subprocess.run([sys.executable, here + "/corpus_plain.py", text, stage, "4"], check=False)


if __name__ == "__main__":
    main()
