#!/usr/bin/env python3
"""How far knowledge of a parallel feature spreads: the sources that mention it outside its own room.

    bench/feature_spread.py [TREE] [--list FEATURE]

Printed is, for each feature, the number of headers and sources of src/athanor and apps that name it in code (comments,
strings and includes do not count), apart from its own room, from layout/ and config/, and from folders where the words mean
something else. The names are those of this tree and of e2804be, so both can be counted. Files that know more than five
features are named.
"""

import argparse
import re
from pathlib import Path

# feature: (names in code, parts of paths that are its own room)
FEATURES = {
    "hybrid sharding": (
        r"zero_shard|shard_degree|[hH]ybrid|options_?\.across|\bexpert_across\b|\bexpert_all\b|share_shards|expert_shards"
        r"|ranks_?\.replicate|groups_?\.\w+\.replicate|\.across = |sets_of", ()),
    "local SGD": (
        r"sync_every|[iI]slands?\b|two_speed|TwoSpeed|local_sgd|LocalSgd|replica_group|ReplicaGroup|OuterSync|OuterGroup"
        r"|outer_options|sync_group|\bouter->|\bouter\.",
        ("local_sgd", "two_speed", "island", "replica_group", "outer_group")),
    "parameter servers": (
        r"ParameterServer|parameter_server|\bservers?\b|\bServer|is_server|[sS]erved\b|ServerClient",
        ("parameter_server", "/server", "served")),
    "compression": (r"compression|Compression|compressed|OneBit|onebit", ("compress", "onebit")),
    "load balance": (
        r"[lL]oad_?[bB]alance|grain_balance|GrainBalance|GrainDealer|grain_dealers|balance_every|share_micro_batches"
        r"|share_grains|GrainShares|MicroBatchShares|by_speed|grains_by|WorstShares",
        ("balance", "grain_shares", "micro_batch_shares", "dealer")),
    "expert parallelism": (
        r"ExpertParallel|expert_parallel|expert_group|expert_parts|ExpertGroup|expert_mesh|split_experts|\bedp\b"
        r"|parallel\.ep\b|layout_?\.ep\b|experts_apart|groups_?\.expert|experts\.exists|ExpertExchange|expert_grains"
        r"|expert_micro_batches|weights_apart", ("expert",)),
}
ELSEWHERE = ("/layout/", "/config/", "/documents/", "/text/", "/kernels/", "base/", "tensor/", "data/byte_source",
             "data/document_reader", "data/file_format", "checkpoint/manifest", "athanor-bench/main", "athanor-bench/bench.h",
             "athanor-bench/fault_trial")


def code_of(path):
    text = re.sub(r"//[^\n]*", "", path.read_text(errors="replace"))
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    return re.sub(r"#include[^\n]*", "", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", metavar="FEATURE", choices=FEATURES)
    args = parser.parse_args()
    known = {feature: [] for feature in FEATURES}
    for folder in ("src/athanor", "apps"):
        for path in sorted((args.tree / folder).rglob("*")):
            name = str(path.relative_to(args.tree))
            if path.suffix not in (".h", ".cpp") or any(part in name for part in ELSEWHERE):
                continue
            code = code_of(path)
            for feature, (names, room) in FEATURES.items():
                if not any(part in name for part in room) and re.search(names, code):
                    known[feature].append(name)
    for feature, names in known.items():
        print(f"{len(names):3}  {feature}")
    every = {name for names in known.values() for name in names}
    for name in sorted(every):
        count = sum(name in names for names in known.values())
        if count > 5:
            print(f"{name}: knows {count} of them")
    if args.list:
        print("\n".join(known[args.list]))


if __name__ == "__main__":
    main()
