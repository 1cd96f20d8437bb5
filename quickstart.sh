#!/usr/bin/env bash
# From nothing to a language model that writes: installs, builds, gathers text in three channels (English, Chinese, C),
# trains a tokenizer and a small LLaMA on two ranks, evaluates it, lets it write, and prints a table.
#
#   ./quickstart.sh [--no-install]
#
# Needs Debian 12, two cores and about ten minutes. All it makes lies in build/ and runs/quickstart; a second run
# starts afresh. The figures are in runs/quickstart/report.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

install=yes
case "${1-}" in
  "") ;;
  --no-install) install=no ;;
  --help|-h) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "quickstart.sh: error: option: got '$1', expected --no-install" >&2; exit 2 ;;
esac

work=build/quickstart
run=runs/quickstart
athanor=build/release/athanor
phases=() code=0 step="starting"
ended() {
  case $code in
    0) ;;
    75) echo "quickstart.sh: $step was interrupted and has saved; the quickstart stops here and starts afresh next time" >&2 ;;
    *) echo "quickstart.sh: error: $step failed (exit code $code)" >&2 ;;
  esac
}
trap 'code=$?; ended' EXIT

# phase NAME COMMAND...: runs it under a headline and notes its time.
phase() {
  local started=$SECONDS
  step=$1
  shift
  printf '\n=== %s\n' "$step"
  "$@"
  phases+=("$(printf '%-12s %4d s' "$step" $((SECONDS - started)))")
}

build() {
  cmake --preset release >/dev/null
  cmake --build build/release --target athanor -j "$(nproc)"
}

train_tokenizer() {
  "$athanor" tokenizer train --type byte-bpe --vocab-size 8192 --output "$work/tokenizer.json" "$work"/data/*
}

write_config() {
  local channel channels=()
  for channel in en zh code; do
    [ ! -d "$work/data/$channel" ] || channels+=("  {name = \"$channel\", path = \"data/$channel\"},")
  done
  cat >"$work/quickstart.toml" <<TOML
[model]
preset = "llama-tiny"
max_seq_len = 256

[data]
channels = [
$(printf '%s\n' "${channels[@]}")
]
tokenizer = "tokenizer.json"
seq_len = 256
valid_fraction = 0.02

[train]
name = "quickstart"
steps = 320
global_batch = 16
micro_batch = 4
eval_every = 80
first_eval_tokens = 131072
seed = 1

[optimizer]
lr = 2e-3

[schedule]
warmup_steps = 30

[precision]
compute = "bf16"

[checkpoint]
every_steps = 160
TOML
}

train() {
  rm -rf "$run"
  write_config
  "$athanor" launch -n 2 -- train "$work/quickstart.toml"
}

evaluate() { "$athanor" evaluate "$run"; }

generate() {
  local prompt
  for prompt in "The Debian system is" "文件系统" $'struct '; do
    printf -- '--- %s\n' "$prompt"
    "$athanor" generate "$run" --prompt "$prompt" --max-tokens 80 --temperature 0.8 --top-p 0.9 --seed 1
    echo
  done
}

# field NAME: a number or an object of numbers of report.json, which has no nested objects of that name elsewhere.
field() { tr -d '\n' <"$run/report.json" | sed -nE "s/.*\"$1\": *(\{[^}]*\}|[^,}]*).*/\1/p"; }
member() { sed -nE "s/.*\"$2\": *([^,} ]*).*/\1/p" <<<"$1"; }

table() {
  local first last channel
  first=$(field channel_loss_first) last=$(field channel_loss_last)
  printf '%s parameters, %s ranks, %s steps, %s tokens\n\n' \
    "$(field params)" "$(field ranks)" "$(field steps)" "$(field tokens)"
  printf 'held-out loss   before    after\n'
  for channel in en zh code; do
    [ -d "$work/data/$channel" ] || continue
    printf '%-12s  %8.4f %8.4f\n' "$channel" "$(member "$first" "$channel")" "$(member "$last" "$channel")"
  done
  printf '%-12s  %8.4f %8.4f\n\n' all "$(field valid_loss_first)" "$(field valid_loss_last)"
  printf '%.0f tokens/s, MFU %.1f %%\n\n' "$(field tokens_per_second)" "$(awk "BEGIN {print 100 * $(field mfu)}")"
  printf '%s\n' "${phases[@]}"
  printf '%-12s %4d s\n' total "$SECONDS"
}

[ "$install" = no ] || phase install scripts/install-deps.sh
phase build build
phase text scripts/quickstart/corpus.sh "$work"
phase tokenizer train_tokenizer
phase train train
phase evaluate evaluate
phase generate generate
printf '\n=== result\n'
table
