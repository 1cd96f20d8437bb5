#!/usr/bin/env bash
# Kills a rank of a run that trains, and says what became of it.
#
#   scripts/quickstart/kill_rank.sh at STEP ATHANOR RUN RANK   # waits until the step is done, then SIGKILL; ends with the run
#   scripts/quickstart/kill_rank.sh told RUN RANK              # when the training has ended: a sentence
#
# `told` reads events.jsonl of the run's folder: "rank 1 killed at step 300: training went on after 0.04 s, nothing lost". A
# rank that was not killed, as the run had ended before, is said and is no error. Exit code 1: the run did not recover.
set -euo pipefail
usage="usage: kill_rank.sh at STEP ATHANOR RUN RANK | kill_rank.sh told RUN RANK"

last_step() { tail -n 1 "$1/metrics.jsonl" 2>/dev/null | sed -nE 's/^\{"step": *([0-9]+).*/\1/p' || true; }

kill_at() {
  local step=$1 athanor=$2 run=$3 rank=$4 now
  while now=$(last_step "$run") && [ "${now:-0}" -lt "$step" ]; do sleep 0.1; done
  "$athanor" ctl "$run" kill "$rank" >/dev/null 2>&1 || true  # refused: the run has just ended; `told` says so
}

told() {
  local run=$1 rank=$2
  [ -f "$run/events.jsonl" ] || { echo "rank $rank was not killed: the run has no events"; return 0; }
  awk -v rank="$rank" '
    function value(name) {return match($0, "\"" name "\": *[^,}]*") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : "null"}
    value("event") == "\"failure\"" && value("rank") == rank && /SIGKILL/ && !killed {killed = 1; step = value("step"); next}
    killed && value("event") == "\"recovered\"" && !recovered {recovered = 1; after = value("recover_seconds"); lost = value("lost_steps")}
    value("event") == "\"end\"" {finished = /finished/}
    END {
      if (!killed) {printf "rank %s was not killed: the training ended before\n", rank; exit}
      printf "rank %s killed at step %s: ", rank, step
      if (recovered) printf "training went on after %.2f s, %s\n", after, (lost > 0 ? "steps done again: " lost : "nothing lost")
      else if (finished) print "all steps were done"
      else {print "the training did not go on"; exit 1}
    }' "$run/events.jsonl"
}

case ${1-} in
  at) [ $# -eq 5 ] || { echo "$usage" >&2; exit 2; }; kill_at "${@:2}" ;;
  told) [ $# -eq 3 ] || { echo "$usage" >&2; exit 2; }; told "${@:2}" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
