#!/usr/bin/env bash
# Includes point downwards only: every folder of src/athanor includes, and links, what scripts/layers.txt allows.
#
# A folder may include those at the right of its name, and what those may include. The DEPS of its CMakeLists.txt are
# among these, and lead to every folder that its files include. Prints each offence as FILE:LINE and exits 1.
# What calls fmt::format_to includes <fmt/format.h>: with <fmt/core.h> alone clang's programs do not link.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if without=$(git grep -lE '\bformat_to\(' -- '*.cpp' '*.h' | xargs grep -L '#include <fmt/format.h>'); then
  for file in $without; do echo "check_layers: $file: calls format_to(), expected #include <fmt/format.h>" >&2; done
  [ -z "$without" ] || exit 1
fi

{
  sed 's/#.*//' scripts/layers.txt | awk 'NF {print "layer", $0}'
  # A single call per folder carries its name; object libraries of one instruction set have no DEPS.
  for list in src/athanor/*/CMakeLists.txt; do
    awk -v folder="$(basename "$(dirname "$list")")" '
      {sub(/#.*/, "")} {text = text " " $0}
      END {
        while (match(text, /athanor_library\([^)]*\)/)) {
          call = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
          gsub(/athanor_library\(|\)/, " ", call)
          n = split(call, word, " ")
          if (word[1] != folder) continue
          printf "deps %s", folder
          for (i = 2; i <= n; i++) {
            if (word[i] ~ /^(SOURCES|DEPS|LIBS)$/) section = word[i]
            else if (section == "DEPS") printf " %s", word[i]
          }
          print ""
        }
      }' "$list"
  done
  grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<](\.\.?/|athanor/|apps/|tests/)' src/athanor \
    --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.inc' |
    sed -E 's|^src/athanor/([^/]+)/([^:]*):([0-9]+):[^"<]*["<]([^">]+)[">].*|include \1 src/athanor/\1/\2:\3 \4|'
} | awk '
  function bad(message) {print "check_layers: " message; offences++}
  # may[f, g]: the table lets f include g.  links[f, g]: the DEPS lead from f to g.
  function allow(folder, from,    i, n, list) {
    n = split(right[from], list, " ")
    for (i = 1; i <= n; i++) if (!((folder, list[i]) in may)) {may[folder, list[i]] = 1; allow(folder, list[i])}
  }
  function link(folder, from,    i, n, list) {
    n = split(deps[from], list, " ")
    for (i = 1; i <= n; i++) if (!((folder, list[i]) in links)) {links[folder, list[i]] = 1; link(folder, list[i])}
  }
  $1 == "layer" {
    folder = $2; sub(/:$/, "", folder); known[folder] = 1
    for (i = 3; i <= NF; i++) {
      if (!($i in known)) bad("scripts/layers.txt: " folder " names " $i ", which is not above it in the list")
      right[folder] = right[folder] " " $i
    }
    allow(folder, folder); may[folder, folder] = 1
  }
  $1 == "deps" {
    folder = $2; seen[folder] = 1; links[folder, folder] = 1
    for (i = 3; i <= NF; i++) {
      deps[folder] = deps[folder] " " $i
      if (!((folder, $i) in may)) bad("src/athanor/" folder "/CMakeLists.txt: DEPS: " folder " may not link " $i)
    }
  }
  $1 == "include" {
    includes++
    if ($4 !~ /^athanor\//) {bad($3 ": got \"" $4 "\", expected a path from src/: \"athanor/...\""); next}
    split($4, part, "/")
    if (!($2 in known)) bad($3 ": the folder " $2 " is not in scripts/layers.txt")
    else if (!(($2, part[2]) in may)) bad($3 ": " $2 " may not include " part[2] " (\"" $4 "\")")
    else {
      if (!($2 in linked)) {link($2, $2); linked[$2] = 1}
      if (!(($2, part[2]) in links)) bad($3 ": includes " part[2] ", to which the DEPS of " $2 " do not lead")
    }
  }
  END {
    for (folder in known) if (!(folder in seen)) bad("src/athanor/" folder ": no athanor_library(" folder " ...) there")
    for (folder in seen) if (!(folder in known)) bad("src/athanor/" folder ": not in scripts/layers.txt")
    if (offences) exit 1
    print "check_layers: " includes " includes point downwards"
  }'
