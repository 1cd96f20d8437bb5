#!/usr/bin/env bash
# The quickstart's texts through the corpus pipeline: scripts/quickstart/clean.sh ATHANOR FOLDER
#
# FOLDER/data/{en,zh,code} become FOLDER/corpora/quickstart/{en,zh,code}: documents in another language than their channel's,
# novels that break the rules of Gopher, code that is no code, and copies go. What goes by which rule is in report.html
# beside them; here stand two lines of the funnel, its beginning and its end.
set -euo pipefail
usage="usage: clean.sh ATHANOR FOLDER"
athanor=${1:?$usage} folder=${2:?$usage}

has() { [ -d "$folder/data/$1" ]; }
inputs() {
  local channel
  for channel in en zh code; do
    ! has "$channel" || printf '[[input]]\nchannel = "%s"\npath = "data/%s"\n' "$channel" "$channel"
  done
}
# stage CHANNEL LINE...: left out where there is no such text
stage() {
  has "$1" || return 0
  printf '[[stage]]\nchannels = ["%s"]\n' "$1"
  printf '%s\n' "${@:2}"
}

{
  echo '# The corpus of the quickstart: athanor corpus build FILE; docs/corpus.md says what else there is.'
  printf '[corpus]\nname = "quickstart"\noutput = "corpora"\n'
  inputs
  stage en 'kind = "language"' 'keep = ["en"]'
  stage en 'kind = "heuristics"' 'preset = "gopher"'
  stage zh 'kind = "language"' 'keep = ["zh"]      # manual pages that are half translated stay English'
  stage code 'kind = "heuristics"' 'preset = "code"'
  printf '[[stage]]\nkind = "dedup"\nmethod = "minhash"\n'
} >"$folder/corpus.toml"
# shellcheck disable=SC2016
"$athanor" corpus build "$folder/corpus.toml" | sed -n '1p; /^[0-9]/h; ${g; p}'
