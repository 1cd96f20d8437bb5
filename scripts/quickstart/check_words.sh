#!/usr/bin/env bash
# How much of a text is language of its training text, and how much is copied:
#   scripts/quickstart/check_words.sh TEXT TRAINING_FILE...
#
# Prints "W of N words stand in the training text (P %), R runs of eight words are copied". A word is a run of ASCII
# letters and apostrophes, in lower case; runs of eight may cross sentences, not paragraphs of the training text, and
# not files. Exit code 1 if fewer than 90 % of the words stand there or any run is copied.
set -euo pipefail
export LC_ALL=C
text=${1:?usage: check_words.sh TEXT TRAINING_FILE...}
shift

cat -- "$@" | awk -v text="$text" '
  # words(LINE): fills word[1..n] and returns n.
  function words(line,    n) {
    line = tolower(line)
    gsub(/[^a-z\047]+/, " ", line)
    gsub(/(^| )\047+|\047+( |$)/, " ", line)
    n = split(line, word, " ")
    return n
  }
  function run_at(i,    j, run) {
    run = word[i]
    for (j = 1; j < 8; j++) run = run " " word[i + j]
    return run
  }
  # A paragraph of text: its words are counted, its runs of eight awaited.
  function sample(line,    n, i) {
    n = words(line)
    for (i = 1; i <= n; i++) {total++; count[word[i]]++}
    for (i = 1; i + 7 <= n; i++) awaited[run_at(i)] = 1
  }
  BEGIN {
    while ((getline line < text) > 0) {
      if (line ~ /^[ \t]*$/) {sample(joined); joined = ""} else joined = joined " " line
    }
    sample(joined); joined = ""
  }
  function learn(line,    n, i, run) {
    n = words(line)
    for (i = 1; i <= n; i++) if (word[i] in count) {known += count[word[i]]; delete count[word[i]]}
    for (i = 1; i + 7 <= n; i++) if ((run = run_at(i)) in awaited) {copies++; print "  copied: " run; delete awaited[run]}
  }
  /^[ \t]*$/ {learn(joined); joined = ""; next}
  {joined = joined " " $0}
  END {
    learn(joined)
    for (w in count) unknown = unknown " " w
    if (unknown != "") print "  not in the training text:" unknown
    if (total == 0) {print "no words"; exit 1}
    share = 100 * known / total
    printf "%d of %d words stand in the training text (%.1f %%), %d runs of eight words are copied\n", known, total, share, copies
    exit share < 90 || copies > 0
  }'
