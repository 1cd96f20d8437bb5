#!/usr/bin/env python3
"""Is cleaned text better to train on? Held-out loss of models of raw and of cleaned text, at equal tokens.

    bench/raw_and_clean.py ATHANOR FOLDER [--steps 600] [--seeds 3]

FOLDER is what the quickstart made: data/ (raw text of three channels), corpus.toml, corpora/quickstart (the same, cleaned). Of the cleaned
documents every twentieth, by a hash of its id, is held out; neither training sees it under its id (copies of it that cleaning took
out of the raw text stay there, as they would). Both models are the same small LLaMA with the same tokenizer, of the raw text
without what is held out, weights of the channels 0.8, 0.1, 0.1 and as many steps. Printed are, for each seed, the mean loss
per byte (in bits) of each channel's held-out documents, and the mean and spread of the differences.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

WEIGHTS = {"en": 0.8, "zh": 0.1, "code": 0.1}
CONFIG = """[model]
model_type = "llama"
num_hidden_layers = 4
hidden_size = 128
num_attention_heads = 4
intermediate_size = 384
tie_word_embeddings = true
[data]
channels = [{channels}]
tokenizer = "tokenizer.json"
seq_len = 128
valid_fraction = 0.0
[train]
name = "{name}"
steps = {steps}
global_batch_size = 16
micro_batch_size = 8
eval_every = 0
seed = {seed}
[optimizer]
lr = 4e-3
[schedule]
warmup_steps = 50
[precision]
compute = "bf16"
[checkpoint]
every_steps = 0
"""


def run(folder, *words):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"raw_and_clean: {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def records(folder, channel):
    for shard in sorted((folder / channel).glob("*.zst")):
        text = subprocess.run(["zstdcat", shard], capture_output=True, text=True, check=True).stdout
        yield from (json.loads(line) for line in text.splitlines())


def is_held_out(identity):
    return hashlib.sha256(identity.encode()).digest()[0] < 256 // 20


def write(path, documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps(document, ensure_ascii=False) + "\n")
    return sum(len(document["text"].encode()) for document in documents)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("athanor", type=os.path.realpath)
    parser.add_argument("folder", type=lambda path: Path(path).resolve())
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        # The raw text as documents with the ids that cleaning gave them: a corpus without stages.
        lines = ['[corpus]', 'name = "raw"'] + [line for channel in WEIGHTS for line in (
            "[[input]]", f'channel = "{channel}"', f'path = "{args.folder}/data/{channel}"')]
        (work / "raw.toml").write_text("\n".join(lines) + "\n")
        run(work, args.athanor, "corpus", "build", "raw.toml")
        for channel in WEIGHTS:
            clean = list(records(args.folder / "corpora/quickstart", channel))
            held = {document["id"] for document in clean if is_held_out(document["id"])}
            raw = list(records(work / "corpora/raw", channel))
            sizes = [write(work / kind / channel / "text.jsonl", chosen) for kind, chosen in (
                ("raw", [document for document in raw if document["id"] not in held]),
                ("clean", [document for document in clean if document["id"] not in held]),
                ("held", [document for document in clean if document["id"] in held]))]
            print(f"{channel}: raw {sizes[0]:,} bytes, clean {sizes[1]:,}, held out {sizes[2]:,} in {len(held)} documents")
        run(work, args.athanor, "tokenizer", "train", "--type", "byte-bpe", "--vocab-size", 4096, "--output", "tokenizer.json",
            *(f"raw/{channel}" for channel in WEIGHTS))
        differences = {channel: [] for channel in WEIGHTS}
        for seed in range(1, args.seeds + 1):
            bits = {}
            for kind in ("raw", "clean"):
                channels = ", ".join(f'{{name = "{channel}", path = "{kind}/{channel}", weight = {weight}}}'
                                     for channel, weight in WEIGHTS.items())
                (work / "run.toml").write_text(CONFIG.format(channels=channels, name=f"{kind}{seed}", steps=args.steps, seed=seed))
                run(work, args.athanor, "train", "run.toml")
                for channel in WEIGHTS:
                    told = json.loads(run(work, args.athanor, "evaluate", f"runs/{kind}{seed}", f"held/{channel}/text.jsonl", "--json"))
                    bits[kind, channel] = told["bits_per_byte"] if "bits_per_byte" in told else told["files"][0]["bits_per_byte"]
            for channel in WEIGHTS:
                differences[channel].append(bits["clean", channel] - bits["raw", channel])
            print(f"seed {seed}: " + ", ".join(
                f"{channel} raw {bits['raw', channel]:.4f} clean {bits['clean', channel]:.4f}" for channel in WEIGHTS), flush=True)
        for channel, values in differences.items():
            print(f"{channel}: clean less raw {mean(values):+.4f} bits a byte (spread of seeds {stdev(values):.4f})")


if __name__ == "__main__":
    main()
