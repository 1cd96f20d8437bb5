#!/usr/bin/env bash
# Files stay short enough to read: warns above 300 lines (headers 150), fails above 500 (kernels 600, tests 800).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' '*.inc' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run |
  xargs -0 -r wc -l | awk '
  $2 == "total" {next}
  {
    limit = 500; warn = 300
    if ($2 ~ /^src\/athanor\/kernels\//) limit = 600
    if ($2 ~ /^tests\//) limit = 800
    else if ($2 ~ /\.(h|cuh)$/) warn = 150
    files++; lines += $1
    if ($1 > limit) {print "check_length: error: " $2 ": got " $1 " lines, expected at most " limit; offences++}
    else if ($1 > warn) print "check_length: warning: " $2 ": " $1 " lines, more than " warn
  }
  END {
    print "check_length: " files " files, " lines " lines"
    exit offences > 0
  }'
