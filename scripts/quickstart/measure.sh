#!/usr/bin/env bash
# How much this machine can train in a given time: scripts/quickstart/measure.sh ATHANOR FOLDER SECONDS
#
# Trains for some seconds on two ranks at a learning rate of almost zero, and prints "SIZE STEPS TOKENS_PER_SECOND": the
# size of config.sh to take, and how many steps of it last so many seconds. The measured runs change no weight, so
# what the last one leaves in runs/quickstart-untrained is the model before its training. FOLDER is config.sh's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: measure.sh ATHANOR FOLDER SECONDS"
athanor=${1:?$usage} folder=${2:?$usage} seconds=${3:?$usage}
run=runs/quickstart-untrained

fewest_tokens=3000000  # that the model should see: a larger one that sees fewer writes worse
most_tokens=5200000    # nearly four times each novel; beyond that a model begins to learn by heart

# rate SIZE STEPS: tokens per second without the first two steps, whose memory is new.
rate() {
  local code=0
  "$here/config.sh" "$folder" "$1" "$2" >"$folder/measure.toml"
  rm -rf "$run"
  "$athanor" launch -n 2 -- train "$folder/measure.toml" --set train.name="${run#runs/}" --set optimizer.lr=1e-30 \
    --set schedule.warmup_steps=0 --set train.eval_every="$2" --set train.eval_tokens=1024 \
    --set train.initial_eval_tokens=0 --set checkpoint.every_steps=0 >"$folder/measure.log" 2>&1 </dev/null || code=$?
  if [ "$code" -ne 0 ]; then
    tail -n 5 "$folder/measure.log" >&2
    return "$code"
  fi
  sed -nE 's/.*"tokens": *([0-9]+).*"step_seconds": *([0-9.e+-]+).*/\1 \2/p' "$run/metrics.jsonl" |
    awk 'NR == 2 {first = $1} NR > 2 {time += $2; last = $1}
         END {if (time <= 0) exit 1; printf "%d\n", (last - first) / time}'
}

sizes=$("$here/config.sh" sizes)
speed=$(rate 1 10)

# The largest model that sees enough text at that many operations a second, then the speed of that one over two seconds.
read -r size steps <<<"$(awk -v speed="$speed" -v seconds="$seconds" -v fewest="$fewest_tokens" '
  NR == 1 {size = 1; operations = speed * $2}
  operations / $2 * seconds >= fewest {size = $1}
  {rate[$1] = operations / $2 / $3}
  END {print size, int(2 * rate[size]) + 8}' <<<"$sizes")"
speed=$(rate "$size" "$steps")
awk -v size="$size" -v speed="$speed" -v seconds="$seconds" -v most="$most_tokens" '
  $1 == size {
    tokens = speed * seconds
    if (tokens > most) tokens = most
    print size, (tokens < 50 * $3 ? 50 : int(tokens / $3)), speed
  }' <<<"$sizes"
