#!/usr/bin/env bash
# A training whose state does not fit: bench/offload.sh [memory] [8bit]
#
#   memory   the same training in memory without a limit, with optimizer state on disk in a memory control group of 60 %
#            of its state (18 bytes a parameter), and with all on disk (ZeRO 3 of one rank) in one of 35 %; losses,
#            gradient norms and the last checkpoint's digest must be the same to the bit, and without offload the limit
#            must be refused by name. The group's peak has the page cache of the checkpoint in it, which fills what is
#            left of the limit; arena_peak_bytes is what the training itself held. Speed: median seconds of a step.
#   8bit     300 steps with f32 and with 8-bit optimizer state; the last losses must be within 2 %
#
# Both by default. Appends a line each to bench/results/offload.jsonl. The control group (version 1 or 2) is a folder
# that this script makes beside its own; where that is not permitted `memory` says so and is not run: exit 3.
# ATHANOR is the program (build/release/athanor), TEXT a text file to train on (made up where there is none).
set -euo pipefail
self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$self/.."
athanor=${ATHANOR-$PWD/build/release/athanor}
[ -x "$athanor" ] || { echo "offload.sh: error: $athanor is missing (./test.sh builds it)" >&2; exit 1; }
scratch=$(mktemp -d -p "${OFFLOAD_SCRATCH-$PWD/build}")
group=""
trap 'rm -rf "$scratch"; [ -z "$group" ] || rmdir "$group"' EXIT

text=${TEXT-}
if [ -z "$text" ]; then
  text=$scratch/text.txt
  awk 'BEGIN { srand(7); split("the a fire metal gold salt lead glass heat slow turns into over under and holds", w, " ");
    for (i = 0; i < 60000; ++i) printf "%s%s", w[int(rand() * 15) + 1], rand() < 0.1 ? ".\n" : " " }' >"$text"
fi
cat >"$scratch/config.toml" <<END
[model]
model_type = "llama"
num_hidden_layers = 6
hidden_size = 640
num_attention_heads = 10
intermediate_size = 1728
vocab_size = 8192
max_position_embeddings = 64
[data]
channels = [ {name = "text", path = "$text"} ]
seq_len = 64
[train]
runs = "$scratch/runs"
steps = 10
global_batch_size = 4
micro_batch_size = 2
eval_every = 0
initial_eval_tokens = 0
eval_tokens = 256
[precision]
compute = "bf16"
END
"$athanor" tokenizer train --type byte-bpe --vocab-size 300 --output "$scratch/tokenizer.json" "$text" >/dev/null
train() {  # name, further options
  local name=$1
  shift
  "$athanor" train "$scratch/config.toml" --set data.tokenizer="$scratch/tokenizer.json" --set train.name="$name" "$@"
}
numbers() {  # of a run: what law 5 says must be the same
  sed -E 's/.*"step": ?([0-9]+).*"loss": ?([^,]*),.*"grad_norm": ?([^,]*),.*/\1 \2 \3/' "$scratch/runs/$1/metrics.jsonl"
}
digest() { "$athanor" checkpoint digest "$scratch/runs/$1" | cut -d' ' -f1; }
seconds_of_step() {  # of a run, the median
  sed -n 's/.*"step_seconds": *\([^,}]*\).*/\1/p' "$scratch/runs/$1/metrics.jsonl" | sort -g |
    awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}
json() { sed -n "s/.*\"$2\": *\([^,}]*\).*/\1/p" "$1" | tail -1; }
result() {
  echo "$1"
  echo "$1" >>bench/results/offload.jsonl
}

open_group() {
  local own
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
    group=$own/athanor-offload-$$
    mkdir "$group" 2>/dev/null && [ -w "$group/memory.max" ] && return 0
  else
    group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/athanor-offload-$$
    mkdir "$group" 2>/dev/null && [ -w "$group/memory.limit_in_bytes" ] && return 0
  fi
  [ -d "$group" ] && rmdir "$group"
  group=""
  return 1
}
limited() {  # bytes, command: in the group
  local limit=$1
  shift
  if [ -f "$group/memory.max" ]; then
    echo "$limit" >"$group/memory.max"
    if [ -w "$group/memory.swap.max" ]; then echo 0 >"$group/memory.swap.max"; fi
  else
    echo "$limit" >"$group/memory.limit_in_bytes"
    if [ -w "$group/memory.memsw.limit_in_bytes" ]; then echo "$limit" >"$group/memory.memsw.limit_in_bytes"; fi
  fi
  (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
}

# Per cent of the state, name, further options: trains within them and compares.
within() {
  local percent=$1 name=$2
  shift 2
  local limit=$((state * percent / 100)) same=false
  [ -f "$group/memory.max" ] || echo 0 >"$group/memory.max_usage_in_bytes"
  limited "$limit" bash -c 'train "$@"' train "$name" "$@" >"$scratch/log" 2>&1 || { tail -5 "$scratch/log" >&2; exit 1; }
  local peak=memory.peak
  [ -f "$group/$peak" ] || peak=memory.max_usage_in_bytes
  if [ "$(numbers in_memory)" = "$(numbers "$name")" ] && [ "$(digest in_memory)" = "$(digest "$name")" ]; then
    same=true
  fi
  result "{\"what\": \"memory\", \"options\": \"$*\", \"params\": $params, \"state_bytes\": $state, \
\"limit_percent\": $percent, \"limit_bytes\": $limit, \
\"group_peak_bytes\": $(cat "$group/$peak" 2>/dev/null || echo null), \"arena_peak_bytes\": \
$(json "$scratch/runs/$name/metrics.jsonl" peak_bytes), \"arena_peak_bytes_in_memory\": \
$(json "$scratch/runs/in_memory/metrics.jsonl" peak_bytes), \"step_seconds\": $(seconds_of_step "$name"), \
\"step_seconds_in_memory\": $(seconds_of_step in_memory), \"same_bits\": $same}"
  [ $same = true ] || { echo "offload.sh: memory: FAILED: the bits differ" >&2; exit 1; }
}

memory() {
  if ! open_group; then
    echo "offload.sh: memory: NOT RUN: no memory control group can be made here" >&2
    exit 3
  fi
  train in_memory >"$scratch/log" 2>&1 || { tail -5 "$scratch/log" >&2; exit 1; }
  params=$(json "$scratch/runs/in_memory/report.json" params)
  state=$((params * 18))
  export -f train
  export athanor scratch
  if limited $((state * 60 / 100)) bash -c 'train refused' >"$scratch/refused" 2>&1; then
    echo "offload.sh: memory: FAILED: $state bytes of state trained in 60 % of them without offload" >&2
    exit 1
  fi
  grep -m1 'error:' "$scratch/refused" || echo "without offload: killed"
  within 60 on_disk --set offload.optimizer=disk
  within 35 all_on_disk --set parallel.zero_stage=3 --set offload.optimizer=disk --set offload.gradients=disk \
    --set offload.parameters=disk --set offload.activations=disk
}

eight_bits() {
  local small=(--set model.num_hidden_layers=4 --set model.hidden_size=128 --set model.num_attention_heads=4 --set model.intermediate_size=384
    --set model.vocab_size=320 --set train.steps=300 --set train.global_batch_size=16 --set train.micro_batch_size=16
    --set optimizer.lr=0.002 --set schedule.warmup_steps=20)
  train wide "${small[@]}" >"$scratch/log" 2>&1 || { tail -5 "$scratch/log" >&2; exit 1; }
  train narrow "${small[@]}" --set optimizer.state=8bit >"$scratch/log" 2>&1 || { tail -5 "$scratch/log" >&2; exit 1; }
  # The mean of the last ten steps: single ones differ by their samples.
  mean() { numbers "$1" | tail -10 | awk '{ sum += $2 } END { print sum / NR }'; }
  local wide narrow ratio
  wide=$(mean wide) narrow=$(mean narrow)
  ratio=$(awk -v a="$narrow" -v b="$wide" 'BEGIN { print a / b }')
  result "{\"what\": \"8bit\", \"steps\": 300, \"loss_f32\": $wide, \"loss_8bit\": $narrow, \"ratio\": $ratio}"
  awk -v r="$ratio" 'BEGIN { exit !(r > 0.98 && r < 1.02) }' ||
    { echo "offload.sh: 8bit: FAILED: expected a ratio within 2 %" >&2; exit 1; }
}

[ $# -gt 0 ] || set -- memory 8bit
for part in "$@"; do
  case $part in
    memory) memory ;;
    8bit) eight_bits ;;
    *) echo "offload.sh: error: got '$part', expected memory or 8bit" >&2; exit 2 ;;
  esac
done
