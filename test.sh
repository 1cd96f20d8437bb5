#!/usr/bin/env bash
# Installs what is needed, builds and runs all tests. The last line is "N passed, N failed[, N skipped]".
#
#   ./test.sh [--no-install] [--preset release|asan|tsan]
#
# asan and tsan build and run the test programs of the folders that tests/CMakeLists.txt names for them; what a test says
# that they leave out (tests/support/tiers.h) is skipped, and named at the end with its reason.
# Tests that want real text read the folder that ATHANOR_TEST_DATA names; they say so aloud where it is unset.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

install=yes
preset=release
while [ $# -gt 0 ]; do
  case "$1" in
    --no-install) install=no ;;
    --preset) preset=${2-}; shift ;;
    --help|-h) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: error: option: got '$1', expected --no-install or --preset NAME" >&2; exit 2 ;;
  esac
  shift || break
done

give_up() {
  echo "test.sh: error: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

packages=(--ci) # clang: its sanitizers' builds and runs take half the time of g++'s
target=(--target test_programs)
case "$preset" in
  release) packages=() target=() ;;  # all there is
  asan)
    export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1:strict_string_checks=1}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1} ;;
  tsan) export TSAN_OPTIONS=${TSAN_OPTIONS-halt_on_error=1:second_deadlock_stack=1} ;;
  *) echo "test.sh: error: preset: got '$preset', expected release, asan or tsan" >&2; exit 2 ;;
esac

[ "$install" = no ] || scripts/install-deps.sh "${packages[@]}" || give_up "installing the packages failed"

build=build/$preset
jobs=$(nproc)
started=$SECONDS
if ! messages=$(cmake --preset "$preset" 2>&1); then
  echo "$messages" >&2
  give_up "configuring the build failed"
fi
cmake --build "$build" -j "$jobs" "${target[@]}" || give_up "the build failed; the messages above say where"
echo "test.sh: built $build in $((SECONDS - started)) s"

if [ -z "${ATHANOR_TEST_DATA-}" ] && [ -d ../shared/data ]; then
  ATHANOR_TEST_DATA=$(cd ../shared/data && pwd)
fi
if [ -n "${ATHANOR_TEST_DATA-}" ]; then export ATHANOR_TEST_DATA; fi

# LLVM 14's thread sanitizer cannot start where the kernel scatters addresses over more than 28 bits.
runner=()
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi

# Many cases wait, for a process that ends or a second that passes: half as many again as there are processors.
exec "${runner[@]}" "$build/tests/run_tests" "$build/tests/list.txt" $((jobs + (jobs + 1) / 2))
