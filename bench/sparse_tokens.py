#!/usr/bin/env python3
"""Makes a sparse token file of a million documents, a thousand million sequences of 256 tokens, and a config for it.

    bench/sparse_tokens.py FOLDER && athanor-bench data FOLDER/sparse.toml

The .bin takes no room on the disk: all its ids are 0.
"""
import array
import os
import struct
import sys

DOCUMENTS, LENGTH = 10**6, 256_000
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
prefix = os.path.join(folder, "sparse")
with open(prefix + ".idx", "wb") as idx:
    idx.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, DOCUMENTS, DOCUMENTS + 1))
    array.array("i", [LENGTH] * DOCUMENTS).tofile(idx)
    array.array("q", range(0, DOCUMENTS * LENGTH * 2, LENGTH * 2)).tofile(idx)
    array.array("q", range(DOCUMENTS + 1)).tofile(idx)
with open(prefix + ".bin", "wb") as ids:
    ids.truncate(DOCUMENTS * LENGTH * 2)
with open(prefix + ".toml", "w") as config:
    config.write(
        '[model]\nnum_hidden_layers = 1\nhidden_size = 32\nnum_attention_heads = 2\nvocab_size = 512\n'
        '[data]\nchannels = [ {name = "sparse", path = "sparse"} ]\nseq_len = 256\nvalid_fraction = 0.0\n'
        "[train]\nglobal_batch_size = 32\nmicro_batch_size = 32\n"
    )
