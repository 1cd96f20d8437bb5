#!/usr/bin/env bash
# Two "hosts" of two ranks on this machine: two network namespaces joined by a veth pair, real TCP between them.
#
#   bench/two_hosts.sh [--rate RATE] [build/release/athanor]      --rate 200mbit limits the link by tbf
#
# Trains the same run over shared memory on one host, and across the two hosts with groups of two levels and flat,
# and prints, per direction, what the link's own counters say beside the formula: for each step a host sends
# 2 (H-1)/H S of gradients with two levels; the flat group's two ranks of a host send 4/4 S each to the other host's.
# The losses of all three must be the same, bit for bit. Needs root; says so and ends well where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rate=
if [ "${1-}" = --rate ]; then rate=$2; shift 2; fi
athanor=${1-build/release/athanor}
source bench/hosts.sh
make_hosts two_hosts "$athanor"
limit_link "$rate"

steps=20
cat >run.toml <<TOML
[model]
model_type = "llama"
num_hidden_layers = 4
hidden_size = 256
num_attention_heads = 4
[data]
channels = [ {name = "en", path = "en.txt"} ]
tokenizer = "tokenizer.json"
seq_len = 64
[train]
steps = $steps
global_batch_size = 8
micro_batch_size = 2
eval_every = 0
threads = 1
[precision]
compute = "f32"
[parallel]
reduce = "tree"
[checkpoint]
every_steps = 0
TOML

losses() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p' "runs/$1/metrics.jsonl"; }

"$athanor" launch -n 4 -- train run.toml --set train.name=shm >shm.log 2>&1 || { cat shm.log; exit 1; }
parameters=$(tr ',' '\n' <runs/shm/report.json | sed -n 's/.*"params": *\([0-9]*\).*/\1/p' | head -n 1)
bytes=$((parameters * 4))
bad=0
for name in levels flat; do
  settings=()
  [ "$name" = levels ] || settings=(--set parallel.transport=gloo)
  before0=$(sent 0) before1=$(sent 1)
  across 2 run.toml "$name" "${settings[@]}"
  after0=$(sent 0) after1=$(sent 1)
  # reduce = "tree" on contiguous micro-batches of even ranks: each rank (each host, with two levels) brings one node.
  if [ "$name" = levels ]; then formula=$((2 * 1 * bytes / 2)); else formula=$((2 * bytes)); fi
  for node in 0 1; do
    before=before$node after=after$node
    on_link=$(((${!after} - ${!before}) / steps))
    awk -v name="$name" -v node="$node" -v got="$on_link" -v want="$formula" 'BEGIN {
      printf "%-6s host %d sends %d bytes a step, formula %d, headers and the rest %+.2f %%\n", name, node, got, want,
        100 * (got / want - 1)
      exit !(got >= want && got <= 1.06 * want)}' || bad=1
  done
  if cmp -s <(losses "$name") <(losses shm); then
    echo "$name: $(losses "$name" | wc -l) losses bitwise those of one host"
  else
    echo "$name: LOSSES DIFFER from those of one host"
    bad=1
  fi
done
[ "$bad" = 0 ] && echo "two_hosts: ok" || { echo "two_hosts: FAILED"; exit 1; }
