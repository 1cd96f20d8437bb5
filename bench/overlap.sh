#!/usr/bin/env bash
# How much of data parallelism's communication the backward pass hides on a slow link.
#
#   bench/overlap.sh [--rate RATE] [--rounds N] [build/release/athanor]      RATE limits the link by tbf (400mbit)
#
# Two "hosts" (bench/hosts.sh) of one rank with one thread train the same model, in turns: on the link as fast as it
# goes, and limited. The time on the link is what its counters say was sent a step, at that rate; hidden is the part of
# it by which a step on the limited link is not longer. (A rate at which the link needs longer than the backward pass
# cannot be hidden: --rate 50mbit.) Needs root; says so and ends well where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rate=400 rounds=5
while [ "${1-}" = --rate ] || [ "${1-}" = --rounds ]; do
  if [ "$1" = --rate ]; then rate=${2%mbit}; else rounds=$2; fi
  shift 2
done
athanor=${1-build/release/athanor}
source bench/hosts.sh
make_hosts overlap "$athanor"

steps=8
cat >run.toml <<TOML
[model]
model_type = "llama"
num_hidden_layers = 12
hidden_size = 256
num_attention_heads = 4
[data]
channels = [ {name = "en", path = "en.txt"} ]
tokenizer = "tokenizer.json"
seq_len = 256
[train]
steps = $steps
global_batch_size = 32
micro_batch_size = 16
eval_every = 0
threads = 1
[precision]
compute = "f32"
[checkpoint]
every_steps = 0
TOML

step_ms() {  # RUN: of its steps from the third on, the median
  sed -n 's/.*"step_seconds":\([^,}]*\).*/\1/p' "runs/$1/metrics.jsonl" | tail -n +3 | sort -g |
    awk '{t[NR] = 1000 * $1} END {print t[int((NR + 1) / 2)]}'
}
median() { sort -g | awk '{t[NR] = $1} END {print t[int((NR + 1) / 2)]}'; }

for round in $(seq 1 "$rounds"); do
  limit_link ""
  across 1 run.toml "fast$round"
  limit_link "${rate}mbit"
  before=$(sent 0)
  across 1 run.toml "slow$round"
  sent=$((($(sent 0) - before) / steps))
  awk -v fast="$(step_ms "fast$round")" -v slow="$(step_ms "slow$round")" -v sent="$sent" -v rate="$rate" 'BEGIN {
      link = sent * 8 / (rate * 1e6) * 1e3
      hidden = 100 * (1 - (slow - fast) / link)
      printf "%.0f ms a step on the fast link, %.0f ms at %d mbit: ", fast, slow, rate
      printf "%.1f MB are %.0f ms on the link, hidden %.1f %%\n", sent / 1e6, link, hidden
      print hidden >>"hidden"}'
done
hidden=$(median <hidden)
awk -v hidden="$hidden" 'BEGIN {printf "overlap: hidden %.1f %%, median (80 asked)\n", hidden; exit !(hidden >= 80)}' ||
  { echo "overlap: FAILED"; exit 1; }
echo "overlap: ok"
