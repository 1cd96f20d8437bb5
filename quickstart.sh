#!/usr/bin/env bash
# From nothing to a language model that writes: installs, builds, gathers text in three channels (English, Chinese, C),
# cleans it, trains a tokenizer, measures this machine, trains a small LLaMA on two ranks, as large as two to three minutes allow,
# kills one of the two half-way, evaluates the model, lets it write before and after, and prints a table.
#
#   ./quickstart.sh [--no-install]
#
# Needs Debian 12, two cores and less than ten minutes. All it makes lies in build/ and runs/quickstart*; a second run
# starts afresh. The figures are in runs/quickstart/report.json, the text that it wrote in runs/quickstart/samples.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

install=yes
case "${1-}" in
  "") ;;
  --no-install) install=no ;;
  --help|-h) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "quickstart.sh: error: option: got '$1', expected --no-install" >&2; exit 2 ;;
esac

work=build/quickstart
run=runs/quickstart
texts=$work/corpora/quickstart  # in channels, clean
athanor=build/release/athanor
untrained=runs/quickstart-untrained
train_seconds=140  # of steps; validation and the start add some ten
train_limit=165    # then it is told to save and end, should the machine have become slower than it was measured
killed_rank=1      # half-way; the launcher starts it again and the training goes on
phases=() step="starting" steps=0 killer="" killed=""

ended() {
  local code=$?
  [ -z "$killer" ] || kill "$killer" 2>/dev/null || true
  case $code in
    0) ;;
    75 | 129 | 130 | 143)
      echo "quickstart.sh: interrupted while at '$step'; nothing after it was done, ./quickstart.sh starts afresh" >&2
      [ "$step" != train ] || echo "quickstart.sh: to go on with the training: $(train_command)" >&2 ;;
    *) echo "quickstart.sh: error: '$step' failed (exit code $code)" >&2 ;;
  esac
}
trap ended EXIT
trap 'exit 130' INT  # after the command in the foreground, which gets the signal too and saves its checkpoint
trap 'exit 143' TERM
trap 'exit 129' HUP

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
  local channels=()
  for channel in en zh code; do [ ! -d "$texts/$channel" ] || channels+=("$texts/$channel"); done
  "$athanor" tokenizer train --type byte-bpe --vocab-size 4096 --output "$work/tokenizer.json" "${channels[@]}"
}

measure() {
  local size speed chosen  # and steps, which train() takes
  chosen=$(scripts/quickstart/measure.sh "$athanor" "$work" "$train_seconds")
  read -r size steps speed <<<"$chosen"
  scripts/quickstart/config.sh "$work" "$size" "$steps" >"$work/quickstart.toml"
  echo "size $size of 4, $speed tokens/s: $steps steps, about $train_seconds s at most; the config is $work/quickstart.toml"
}

train_command() { echo "$athanor launch -n 2 -- train $work/quickstart.toml"; }

train() {
  local code=0
  rm -rf "$run"
  scripts/quickstart/kill_rank.sh at $((steps / 2)) "$athanor" "$run" "$killed_rank" &
  killer=$!
  # shellcheck disable=SC2046
  timeout --foreground "$train_limit" $(train_command) || code=$?
  kill "$killer" 2>/dev/null || true
  wait "$killer" 2>/dev/null || true
  killer=""
  case $code in
    0) [ "$(field status)" != '"interrupted"' ] || return 75 ;;
    124) echo "quickstart.sh: this machine became slower than it was measured: the training ended at $train_limit s" ;;
    *) return "$code" ;;
  esac
  killed=$(scripts/quickstart/kill_rank.sh told "$run" "$killed_rank") || { echo "quickstart.sh: $killed" >&2; return 1; }
}

evaluate() { "$athanor" evaluate "$run"; }

# sample MODEL PROMPT TOKENS SEED
sample() {
  "$athanor" generate "$1" --prompt "$2" --max-tokens "$3" --temperature 0.9 --top-p 0.9 --seed "$4"
}

# What the model writes for the same prompts before and after its training.
generate() {
  local channel
  local -A prompts=([en]="She was" [zh]="文件系统" [code]="struct ")
  for channel in en zh code; do
    [ -d "$texts/$channel" ] || continue
    printf '\n--- %s, untrained\n' "$channel"
    sample "$untrained" "${prompts[$channel]}" 24 1
    printf '\n--- %s, trained\n' "$channel"
    sample "$run" "${prompts[$channel]}" 80 1
  done
}

# Forty lines of English, twenty of them shown, and how much of them are words, how much is copied.
read_english() {
  local number openings=("She was" "It is" "Mr. Bingley had" "I am" "The" "When he") text=$run/samples.txt
  for number in {1..12}; do
    sample "$run" "${openings[number % ${#openings[@]}]}" 100 "$number"
    echo
  done | fold -s -w 78 | awk '{sub(/ +$/, "")} NF {lines++} lines <= 40' >"$text"
  awk 'NF {lines++} lines <= 20' "$text"
  printf '\n(and as much again in %s)\n' "$text"
  scripts/quickstart/check_words.sh "$text" "$work"/data/en/*.txt || echo "(expected: 90 %, and none copied)"
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
    [ -d "$texts/$channel" ] || continue
    printf '%-12s  %8.4f %8.4f\n' "$channel" "$(member "$first" "$channel")" "$(member "$last" "$channel")"
  done
  printf '%-12s  %8.4f %8.4f\n\n' all "$(field valid_loss_first)" "$(field valid_loss_last)"
  printf '%.0f tokens/s, MFU %.1f %%\n\n' "$(field tokens_per_second)" "$(awk "BEGIN {print 100 * $(field mfu)}")"
  printf '%s\n\n' "$killed"
  printf '%s\n' "${phases[@]}"
  printf '%-12s %4d s\n' total "$SECONDS"
}

[ "$install" = no ] || phase install scripts/install-deps.sh
phase build build
phase text scripts/quickstart/corpus.sh "$work"
phase corpus scripts/quickstart/clean.sh "$athanor" "$work"
phase tokenizer train_tokenizer
phase measure measure
phase train train
phase evaluate evaluate
phase generate generate
[ ! -d "$texts/en" ] || phase English read_english
printf '\n=== result\n'
table
