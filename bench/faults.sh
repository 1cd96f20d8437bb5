#!/usr/bin/env bash
# Faults on purpose over layouts and precisions: `athanor chaos` with bench/faults.toml, a campaign each.
#
#   bench/faults.sh [--faults KINDS] [--trials N] [--seed S] [--output FILE.jsonl] [--prefix WORDS] [LAYOUT...]
#
# N trials of each layout (default 25 of kind `kill`, of all layouts below). Adds to FILE (default: standard output is for
# people alone) a line that names commit and layout before the lines of each campaign (docs/chaos.md). WORDS stand before
# each command: nice, taskset. `kinds` as LAYOUT stands for the rows that have kinds of faults of their own, each with its own; `soak`
# for one run that N faults strike. Each layout has a seed of its own, 100 S + its number. The text is tinyshakespeare of the folder that ATHANOR_TEST_DATA names. Exit code 1 if a
# campaign has failed; the folders of its failed trials are named, and stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

faults=kill trials=25 seed=1 output=/dev/null prefix=()
while [ $# -gt 0 ]; do
  case $1 in
    --faults) faults=$2 ;;
    --trials) trials=$2 ;;
    --seed) seed=$2 ;;
    --output) output=$(realpath "$2") ;;
    --prefix) read -ra prefix <<<"$2" ;;
    *) break ;;
  esac
  shift 2
done

moe="model.model_type=moe model.num_experts=4 model.num_experts_per_tok=2 model.moe_intermediate_size=64 model.first_k_dense_replace=1"
# name|ranks|settings
layouts="
dp2-f32|2|
dp2-bf16|2|precision.compute=bf16
dp3-zero1-f32|3|parallel.zero_stage=1
dp3-zero1-bf16|3|parallel.zero_stage=1 precision.compute=bf16
dp2-zero2-f32|2|parallel.zero_stage=2
dp2-zero2-bf16|2|parallel.zero_stage=2 precision.compute=bf16
dp2-zero3-f32|2|parallel.zero_stage=3
dp2-zero3-bf16|2|parallel.zero_stage=3 precision.compute=bf16
tp2-f32|2|parallel.tp=2
tp2-bf16|2|parallel.tp=2 precision.compute=bf16
pp2-f32|2|parallel.pp=2
pp2-bf16|2|parallel.pp=2 precision.compute=bf16
cp2-f32|2|parallel.cp=2
cp2-bf16|2|parallel.cp=2 precision.compute=bf16
moe-ep2-f32|2|parallel.ep=2 $moe
moe-ep2-bf16|2|parallel.ep=2 $moe precision.compute=bf16
"

# The kinds of faults beside kills, where each is strongest. name|ranks|settings|kinds
kinds="
stop|2||stop,pause
launcher|2||kill-master,kill-agent,kill-launcher,stop-master,stop-agent
collectives|2||skip,delay,reorder,mismatch
collectives-tp2|2|parallel.tp=2|skip,delay,reorder,mismatch
flips|2||flip-slot,flip-checkpoint,flip-parameter,flip-gradient
flips-zero2|2|parallel.zero_stage=2|flip-slot,flip-checkpoint
disk|2||full,disk-error,disk-short,disk-hang
scale|4|parallel.reduce=tree|scale
"

athanor=$PWD/build/release/athanor
text=$ATHANOR_TEST_DATA/tinyshakespeare.txt
commit=$(git describe --always --dirty)
folder=$(mktemp -d -t athanor-faults-XXXXXX)
half=$(($(stat -c %s "$text") / 2))
head -c $half "$text" >"$folder/first.txt"
tail -c $half "$text" >"$folder/second.txt"
cp bench/faults.toml "$folder"
cd "$folder"
"$athanor" tokenizer train --type char --output char.json first.txt second.txt >/dev/null

failed=0 number=0
if [ "${1-}" = kinds ]; then
  layouts=$kinds
  shift
fi
if [ "${1-}" = soak ]; then
  echo "{\"layout\":\"soak\",\"commit\":\"$commit\"}" >>"$output"
  "${prefix[@]}" "$athanor" chaos faults.toml -n 3 --seed "$seed" --soak "$trials" --faults "$faults" --set launch.max_restarts=60 \
    --set train.steps=$((6 * trials + 50)) --set parallel.reduce=tree --output "$output" 2>&1 || failed=1
  layouts=
fi
while IFS='|' read -r name ranks settings own; do
  [ -n "$name" ] || continue
  number=$((number + 1))
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  words=()
  for setting in $settings; do words+=(--set "$setting"); done
  echo "{\"layout\":\"$name\",\"commit\":\"$commit\"}" >>"$output"
  echo "== $name"
  "${prefix[@]}" "$athanor" chaos faults.toml -n "$ranks" --seed $((100 * seed + number)) --trials "$trials" --faults "${own:-$faults}" \
    "${words[@]}" --output "$output" 2>&1 || failed=1
done <<<"$layouts"
[ $failed -eq 1 ] && echo "faults: FAILED; what is left lies in $folder" && exit 1
rm -rf "$folder"
echo "faults: ok"
