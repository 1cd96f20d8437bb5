#!/usr/bin/env bash
# Runs the peers beside us, interleaved, and prints ratios: bench/compare.sh PEERS_FOLDER [OPTIONS] [SECTION ...]
#
#   cmake --preset release && ninja -C build/release athanor
#   bench/compare.sh ../shared/peers                           # everything, five pairs each
#   bench/compare.sh ../shared/peers --pairs 1 step attention  # two sections, one pair
#
# Every pair runs one after the other, the order changing from pair to pair; ratios are formed within a pair and
# their median counts. One JSON line for each piece of work goes to bench/results/, after a line that says on
# what hardware. `bench/compare.sh --help` lists sections and options. Needs python3 with torch for the peers in
# PyTorch (python3-torch), gcc and a checkout of karpathy/llm.c (--llmc FOLDER) for llm.c.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec /usr/bin/python3 -B "$here/compare.py" "$@"
