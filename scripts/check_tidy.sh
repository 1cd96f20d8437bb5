#!/usr/bin/env bash
# clang-tidy over C++ sources:
#
#   scripts/check_tidy.sh [BASE [MOST_FILES]]   those that changed
#   scripts/check_tidy.sh --all                 every source that a build compiles
#
# BASE is a commit (the merge base with HEAD counts); without it, the sources touched by the last 20 commits. At most
# MOST_FILES (12) of them, the last changed first, so that a run ends in a few minutes; what was left out is named.
# A source that was clean is not looked at again, and not counted, while it and all that it includes, its options,
# .clang-tidy and clang-tidy stay what they were: build/tidy/clean remembers their hash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v clang-tidy >/dev/null; then
  echo "check_tidy: error: no clang-tidy; run scripts/install-deps.sh --ci" >&2
  exit 1
fi
# The commands of single files, and without precompiled headers: clang cannot read g++'s.
cmake --preset release -B build/tidy -D ATHANOR_UNITY=OFF -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
mkdir -p build/tidy/clean
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/tidy/CMakeCache.txt)
rules=$({ clang-tidy --version; cat .clang-tidy; } | sha256sum | cut -d' ' -f1)
export compiler rules

# options_of FILE: those of its compile command, of clang's kinds or not.
options_of() {
  grep -F " -c $PWD/$1\"" build/tidy/compile_commands.json | head -n 1 |
    sed -e "s|.*[ \"]$compiler ||" -e 's| -o [^ ]* -c .*||'
}
# key_of FILE: a hash of all that clang-tidy sees of it, comments (NOLINT) included; nothing where it cannot be read.
key_of() {
  local options seen
  options=$(options_of "$1")
  # shellcheck disable=SC2086  # words
  seen=$(set -o pipefail; clang++ $options -E -P -C -w "$1" 2>/dev/null | sha256sum) || return 0
  echo "$rules ${options//$PWD/} $1 $seen" | sha256sum | cut -d' ' -f1
}
# look_at FILE: says what is wrong with it.
look_at() {
  local key
  key=$(key_of "$1")
  # The commands are g++'s: clang does not know all of its warnings, and compiling is not what is checked here.
  clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error "$1" 2>/dev/null ||
    return 1
  [ -z "$key" ] || : >"build/tidy/clean/$key"
}
# was_clean FILE
was_clean() {
  local key
  key=$(key_of "$1")
  [ -n "$key" ] && [ -e "build/tidy/clean/$key" ]
}
export -f options_of key_of look_at was_clean

most=
if [ "${1-}" = --all ]; then
  mapfile -t named < <(git ls-files -- '*.cpp')
else
  range=(-n 20)
  if [ -n "${1-}" ]; then range=("$(git merge-base "$1" HEAD)..HEAD"); fi
  most=${2-12}
  # Each name once, newest change first.
  mapfile -t named < <(git log --format= --name-only "${range[@]}" -- '*.cpp' | awk 'NF && !seen[$0]++')
fi
compiled=() # only what still exists and is compiled here
for file in "${named[@]}"; do
  if grep -qF "\"$PWD/$file\"" build/tidy/compile_commands.json; then compiled+=("$file"); fi
done
if [ ${#compiled[@]} -eq 0 ]; then
  echo "check_tidy: no compiled source changed"
  exit 0
fi
# In the order they came; those of which nothing is remembered.
# shellcheck disable=SC2016  # $0 is for the inner shell
mapfile -t files < <(for i in "${!compiled[@]}"; do printf '%s %s\0' "$i" "${compiled[$i]}"; done |
  xargs -0 -n 1 -P "$(nproc)" bash -c 'was_clean "${0#* }" || echo "$0"' | sort -n | cut -d' ' -f2-)
remembered=$((${#compiled[@]} - ${#files[@]}))
if [ -n "$most" ] && [ ${#files[@]} -gt "$most" ]; then
  echo "check_tidy: not looked at, being over $most files: ${files[*]:$most}"
  files=("${files[@]:0:$most}")
fi
if [ ${#files[@]} -gt 0 ]; then
  # shellcheck disable=SC2016
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'look_at "$0"'
fi
echo "check_tidy: ${#files[@]} files are clean, $remembered are as they were when they were"
