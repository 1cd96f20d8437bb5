#!/usr/bin/env python3
"""Token files of Megatron-LM's layout, both ways: ours read by others, others' read by us.

    bench/megatron_files.py PROGRAM TOKENIZER TEXT [--megatron indexed_dataset.py]

Without --megatron the other side is this script, which reads and writes the layout by its description alone: MMIDIDX, version 1, type, counts,
lengths, byte pointers, document boundaries, modes; each integer type, documents of no, one and several sequences. With it, the classes of
Megatron-LM's own megatron/core/datasets/indexed_dataset.py read what we wrote and write what we read; they need numpy, while torch and the
modules around them are replaced by empty ones, of which these classes use nothing else.
"""
import argparse
import array
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import types

TYPES = {1: ("B", "u8", 0, 255), 2: ("b", "i8", 0, 127), 3: ("h", "i16", 0, 32767), 4: ("i", "i32", 0, 2**31 - 2),
         5: ("q", "i64", 0, 2**31 - 2), 8: ("H", "u16", 0, 65535)}


def check(condition, what):
    if not condition:
        sys.exit(f"megatron_files: {what}")


def read_pair(prefix):
    """Documents, each a list of ids; the code of the type."""
    with open(prefix + ".idx", "rb") as file:
        idx = file.read()
    check(idx[:9] == b"MMIDIDX\0\0" and struct.unpack_from("<Q", idx, 9) == (1,), f"{prefix}: header")
    code, sequences, boundaries = struct.unpack_from("<BQQ", idx, 17)
    at = 34
    lengths = struct.unpack_from(f"<{sequences}i", idx, at)
    pointers = struct.unpack_from(f"<{sequences}q", idx, at + 4 * sequences)
    documents = struct.unpack_from(f"<{boundaries}q", idx, at + 12 * sequences)
    check(len(idx) == at + 12 * sequences + 8 * boundaries, f"{prefix}: size of the index")
    ids = array.array(TYPES[code][0])
    with open(prefix + ".bin", "rb") as file:
        ids.frombytes(file.read())
    def sequence(s):
        first = pointers[s] // ids.itemsize
        return list(ids[first:first + lengths[s]])
    check(sum(lengths) == len(ids), f"{prefix}: size of the ids")
    return [sum((sequence(s) for s in range(a, b)), []) for a, b in zip(documents, documents[1:])], code


def write_pair(prefix, documents, code, modes):
    """documents: lists of sequences."""
    letter = TYPES[code][0]
    sequences = [s for d in documents for s in d]
    pointers, at = [], 0
    for s in sequences:
        pointers.append(at)
        at += len(s) * array.array(letter).itemsize
    boundaries = [0]
    for d in documents:
        boundaries.append(boundaries[-1] + len(d))
    with open(prefix + ".idx", "wb") as idx:
        idx.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sequences), len(boundaries)))
        idx.write(struct.pack(f"<{len(sequences)}i", *(len(s) for s in sequences)))
        idx.write(struct.pack(f"<{len(sequences)}q", *pointers))
        idx.write(struct.pack(f"<{len(boundaries)}q", *boundaries))
        if modes:
            idx.write(bytes(len(sequences)))
    with open(prefix + ".bin", "wb") as ids:
        for s in sequences:
            array.array(letter, s).tofile(ids)


class Athanor:
    def __init__(self, program):
        self.program = os.path.abspath(program)

    def json(self, *arguments):
        return json.loads(subprocess.run([self.program, *arguments, "--json"], check=True, capture_output=True).stdout)

    def documents(self, prefix):
        facts = self.json("dataset", "inspect", prefix)
        subprocess.run([self.program, "dataset", "verify", prefix], check=True, capture_output=True)
        return [self.json("dataset", "inspect", prefix, "--document", str(d), "--tokens", "1000000")["first_tokens"]
                for d in range(facts["documents"])], facts["type"]


def load_megatron(path):
    class Anything(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"is_enabled": staticmethod(lambda: False), "open": staticmethod(open)})
    for name in ("torch", "torch.utils", "torch.utils.data", "megatron", "megatron.core", "megatron.core.datasets",
                 "megatron.core.datasets.object_storage_utils", "megatron.core.msc_utils", "megatron.core.utils"):
        sys.modules[name] = Anything(name)
    torch = sys.modules["torch"]
    torch.utils, torch.utils.data = sys.modules["torch.utils"], sys.modules["torch.utils.data"]
    sys.modules["megatron.core.utils"].log_single_rank = lambda *arguments, **more: None
    sys.modules["megatron.core.datasets.object_storage_utils"].is_object_storage_path = lambda path: False
    spec = importlib.util.spec_from_file_location("indexed_dataset", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_megatron(module, prefix):
    dataset = module.IndexedDataset(prefix, mmap=True)
    bounds = dataset.document_indices
    return [[int(i) for s in range(a, b) for i in dataset[s]] for a, b in zip(bounds, bounds[1:])]


def built_by_megatron(module, prefix, documents, name):
    import numpy
    kind = getattr(numpy, name.replace("u", "uint") if name[0] == "u" else name.replace("i", "int"))
    builder = module.IndexedDatasetBuilder(prefix + ".bin", dtype=kind)
    for document in documents:
        ids = [i for s in document for i in s]
        builder.add_document(numpy.array(ids, dtype=kind), [len(s) for s in document])
    builder.finalize(prefix + ".idx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megatron")
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    arguments = parser.parse_args()
    athanor, rng = Athanor(arguments.program), random.Random(1)
    module = load_megatron(arguments.megatron) if arguments.megatron else None
    with tempfile.TemporaryDirectory() as folder, open(arguments.text, encoding="utf-8") as file:
        text, ours = file.read(), os.path.join(folder, "ours")
        texts = [text[at:at + rng.randint(1, 3000)] for at in (rng.randrange(len(text) - 1) for _ in range(20))]
        with open(os.path.join(folder, "a.jsonl"), "w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": t}) + "\n" for t in texts)
        athanor.json("dataset", "build", "--tokenizer", arguments.tokenizer, "--output", ours, os.path.join(folder, "a.jsonl"))
        end = athanor.json("dataset", "inspect", ours)["end_of_text"]
        expected = []
        for t in texts:
            with open(os.path.join(folder, "one.txt"), "w", encoding="utf-8", newline="") as one:
                one.write(t)
            ids = subprocess.run([athanor.program, "tokenizer", "encode", "--tokenizer", arguments.tokenizer, "--input",
                                  os.path.join(folder, "one.txt")], check=True, capture_output=True).stdout
            expected.append(json.loads(ids) + ([end] if end >= 0 else []))
        documents, code = read_pair(ours)
        check(documents == expected, "our files are not what was encoded")
        print(f"ours, read by this script: {len(documents)} documents, {sum(map(len, documents))} ids of {TYPES[code][1]}: equal")
        if module:
            check(by_megatron(module, ours) == expected, "Megatron-LM reads other ids from our files")
            print("ours, read by Megatron-LM's IndexedDataset: equal")
        for code, (_, name, least, most) in TYPES.items():
            for modes in (False, True):
                made = [[[rng.randint(least, most) for _ in range(rng.randint(0, 9))] for _ in range(rng.randint(0, 3))] for _ in range(30)]
                made.append([[least, most]])
                prefix = os.path.join(folder, f"theirs-{name}-{modes}")
                write_pair(prefix, made, code, modes)
                flat = [[i for s in d for i in s] for d in made]
                check(athanor.documents(prefix) == (flat, name), f"we read other ids of {name}")
                if module and not modes:
                    check(by_megatron(module, prefix) == flat, f"this script writes other ids of {name} than Megatron-LM reads")
                    built_by_megatron(module, prefix, made, name)
                    check(athanor.documents(prefix) == (flat, name), f"we read other ids of {name} than Megatron-LM wrote")
            print(f"theirs of {name}, with and without modes{', and by IndexedDatasetBuilder' if module else ''}, read by us: equal")
        for code in (0, 6, 7, 9):
            prefix = os.path.join(folder, "bad")
            write_pair(prefix, [[[1, 2]]], 8, False)
            with open(prefix + ".idx", "r+b") as idx:
                idx.seek(17)
                idx.write(bytes([code]))
            refused = subprocess.run([athanor.program, "dataset", "inspect", prefix], capture_output=True)
            check(refused.returncode == 1 and b"token type" in refused.stderr, f"type {code} is not refused")
        print("types of floating point, 0 and 9: refused")


main()
