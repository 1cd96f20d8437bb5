#!/usr/bin/env bash
# clang-tidy over the C++ sources that changed: scripts/check_tidy.sh [BASE [MOST_FILES]]
#
# BASE is a commit (the merge base with HEAD counts); without it, the sources touched by the last 20 commits. At most
# MOST_FILES (12) of them, the last changed first, so that a run ends in a few minutes; what was left out is named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v clang-tidy >/dev/null; then
  echo "check_tidy: error: no clang-tidy; run scripts/install-deps.sh --ci" >&2
  exit 1
fi
# The commands of single files, and without precompiled headers: clang cannot read g++'s.
cmake --preset release -B build/tidy -D ATHANOR_UNITY=OFF -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
range=(-n 20)
if [ -n "${1-}" ]; then range=("$(git merge-base "$1" HEAD)..HEAD"); fi
most=${2-12}

# Each name once, newest change first; only what still exists and is compiled here.
mapfile -t changed < <(git log --format= --name-only "${range[@]}" -- '*.cpp' | awk 'NF && !seen[$0]++')
files=() left=()
for file in "${changed[@]}"; do
  grep -qF "\"$PWD/$file\"" build/tidy/compile_commands.json || continue
  if [ ${#files[@]} -lt "$most" ]; then files+=("$file"); else left+=("$file"); fi
done
if [ ${#files[@]} -eq 0 ]; then
  echo "check_tidy: no compiled source changed"
  exit 0
fi
[ ${#left[@]} -eq 0 ] || echo "check_tidy: not looked at, being over $most files: ${left[*]}"
# The commands are g++'s: clang does not know all of its warnings, and compiling is not what is checked here.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2>/dev/null
echo "check_tidy: ${#files[@]} files are clean"
