#!/usr/bin/env bash
# Builds the fuzz targets and gives each a short run: fuzz/run.sh [RUNS [SECONDS]] (20000 runs, 8 s)
#
# Each starts from its corpus, fuzz/corpus/NAME, which stays as it is; new inputs go to build/fuzz/corpus/NAME. What
# makes one fail is left in build/fuzz/failures/NAME-*. The last line counts targets: "N passed, N failed".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

runs=${1-20000} seconds=${2-8}
if ! command -v clang++ >/dev/null; then
  echo "fuzz/run.sh: error: no clang++; run scripts/install-deps.sh --ci" >&2
  echo "0 passed, 1 failed"
  exit 1
fi
if ! cmake --preset asan >/dev/null || ! cmake --build build/asan --target fuzzers -j "$(nproc)"; then
  echo "fuzz/run.sh: error: the build failed; the messages above say where" >&2
  echo "0 passed, 1 failed"
  exit 1
fi

passed=0 failed=0
mkdir -p build/fuzz/failures
for source in fuzz/*_fuzz.cpp; do
  name=$(basename "$source" _fuzz.cpp)
  mkdir -p "build/fuzz/corpus/$name"
  corpora=("build/fuzz/corpus/$name")
  [ ! -d "fuzz/corpus/$name" ] || corpora+=("fuzz/corpus/$name")
  if messages=$("build/asan/fuzz/${name}_fuzz" -runs="$runs" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 \
    -seed=1 -print_final_stats=1 -artifact_prefix="build/fuzz/failures/$name-" "${corpora[@]}" 2>&1); then
    passed=$((passed + 1))
    echo "$name: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' <<<"$messages") inputs"
  else
    failed=$((failed + 1))
    echo "$name: failed"
    tail -n 40 <<<"$messages"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
