#!/usr/bin/env python3
"""Stages of `athanor corpus build` as a straightforward Python program would have them: what bench/corpus.py compares with.

    bench/corpus_plain.py FILE.jsonl STAGE [MEGABYTES]

Prints the megabytes of text a second of one core. STAGE: heuristics (the rules of Gopher and FineWeb), minhash (14 x 8
over 5-grams), exact, privacy. Regular expressions, dictionaries and numpy, as in the usual pipelines; no more.
"""
import hashlib
import json
import re
import sys
import time
import unicodedata

import numpy as np

STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}


def duplicate_share(parts, characters):
    seen, repeated, repeated_characters = set(), 0, 0
    for part in parts:
        if part in seen:
            repeated += 1
            repeated_characters += len(part)
        seen.add(part)
    return repeated / max(1, len(parts)), repeated_characters / max(1, characters)


def ngram_shares(words, characters):
    shares = []
    for n in (2, 3, 4):
        counts = {}
        for i in range(len(words) - n + 1):
            gram = " ".join(words[i:i + n])
            counts[gram] = counts.get(gram, 0) + 1
        gram, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        shares.append(len(gram) * count / max(1, characters))
    for n in range(5, 11):
        seen, repeated, i = set(), 0, 0
        while i < len(words) - n + 1:
            gram = "".join(words[i:i + n])
            if gram in seen:
                repeated += len(gram)
                i += n
            else:
                seen.add(gram)
                i += 1
        shares.append(repeated / max(1, characters))
    return shares


def heuristics(text):
    words = re.findall(r"\w+|[^\w\s]", text)
    plain = [word for word in words if word[0].isalnum()]
    lines = [line for line in text.split("\n") if line.strip()]
    characters = len(text)
    return [len(plain), sum(map(len, plain)) / max(1, len(plain)), text.count("#") / max(1, len(words)),
            text.count("...") / max(1, len(words)), sum(line.lstrip().startswith(("•", "-")) for line in lines),
            sum(line.rstrip().endswith(("...", "…")) for line in lines),
            sum(any(c.isalpha() for c in word) for word in words) / max(1, len(words)),
            len(STOP_WORDS & set(words)), *duplicate_share(lines, characters),
            *duplicate_share(re.split(r"\n{2,}", text), characters), *ngram_shares(words, characters),
            sum(line.rstrip().endswith((".", "?", "!", '"', "'")) for line in lines) / max(1, len(lines)),
            sum(len(line) <= 30 for line in lines) / max(1, len(lines)), text.count("\n") / max(1, len(words))]


PRIME = np.uint64((1 << 61) - 1)
RANDOM = np.random.RandomState(1)
A = np.array([RANDOM.randint(1, (1 << 61) - 1, dtype=np.uint64) for _ in range(112)], dtype=np.uint64)
B = np.array([RANDOM.randint(0, (1 << 61) - 1, dtype=np.uint64) for _ in range(112)], dtype=np.uint64)


def minhash(text):
    text = unicodedata.normalize("NFD", re.sub(r"\s+", " ", re.sub(r"[^\w\s]", " ", re.sub(r"\d+", "0", text.lower()))))
    words = text.split()
    grams = {" ".join(words[i:i + 5]) for i in range(max(1, len(words) - 4))}
    hashes = np.fromiter((int.from_bytes(hashlib.sha1(gram.encode()).digest()[:8], "little") for gram in grams),
                         dtype=np.uint64, count=len(grams))
    with np.errstate(over="ignore"):
        return ((hashes[:, None] * A[None, :] + B[None, :]) % PRIME).min(axis=0)


def exact(text):
    return hashlib.md5(text.encode()).digest()


PATTERNS = [re.compile(pattern) for pattern in (
    r"[\w.+-]+@[\w-]+\.[\w.-]+", r"\b(?:\d{1,3}\.){3}\d{1,3}\b", r"(?:\+\d{1,3}[ -]?)?\(?\d{3}\)?[ -.]?\d{3}[ -.]?\d{4}\b",
    r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b", r"\b(?:\d[ -]?){13,19}\b", r"\b\d{17}[\dX]\b", r"\bAKIA[A-Z0-9]{16}\b",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----")]


def privacy(text):
    for pattern in PATTERNS:
        text = pattern.sub("<ITEM>", text)
    return text


def main():
    path, stage = sys.argv[1:3]
    most = float(sys.argv[3]) * 1e6 if len(sys.argv) > 3 else 5e6
    texts, size = [], 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            size += len(texts[-1].encode())
            if size >= most:
                break
    work = {"heuristics": heuristics, "minhash": minhash, "exact": exact, "privacy": privacy}[stage]
    start = time.process_time()
    for text in texts:
        work(text)
    print(f"{stage} {size / 1e6 / (time.process_time() - start):.2f} MB/s")


if __name__ == "__main__":
    main()
