#!/usr/bin/env bash
# Files stay short enough to read, folders small enough to know: warns above 300 lines, fails above 500 (kernels 600,
# tests 800). A header has at most 150 lines, the code of kernels apart; a folder of sources without rooms (subfolders) at
# most thirty sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rooms_and_headers=error # error: what is over those two makes this fail

{
  git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' '*.inc' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run | xargs -0 -r wc -l
  # A folder counts its own .cpp and .cu; what lies in its subfolders is theirs.
  git ls-files -- 'src/*.cpp' 'src/*.cu' 'apps/*.cpp' | sed -E 's|/[^/]*$||' | sort | uniq -c | sed 's/^/folder /'
} | awk -v kind="$rooms_and_headers" '
  function over(message) {
    print "check_length: " kind ": " message
    if (kind == "error") offences++
  }
  $2 == "total" {next}
  $1 == "folder" {
    if ($2 > 30) over($3 ": got " $2 " sources, expected at most 30, or rooms")
    next
  }
  {
    limit = 500; warn = 300
    header = $2 ~ /\.(h|cuh)$/ && $2 !~ /^tests\//
    # Code that several instruction sets or devices compile: no manual.
    if (header && $2 ~ /^src\/athanor\/kernels\/(cpu|cuda)\//) header = 0
    if ($2 ~ /^src\/athanor\/kernels\//) limit = 600
    if ($2 ~ /^tests\//) limit = 800
    files++; lines += $1
    if ($1 > limit) {print "check_length: error: " $2 ": got " $1 " lines, expected at most " limit; offences++}
    else if (header && $1 > 150) over($2 ": got " $1 " lines, expected at most 150 of a header")
    else if ($1 > warn) print "check_length: warning: " $2 ": " $1 " lines, more than " warn
  }
  END {
    print "check_length: " files " files, " lines " lines"
    exit offences > 0
  }'
