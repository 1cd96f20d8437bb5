#!/usr/bin/env bash
# Installs what is needed, builds and runs all tests. The last line is "N passed, N failed[, N skipped]".
#
#   ./test.sh [--no-install] [--preset release|asan|tsan]
#
# asan and tsan build and run the unit tests only: tsan those with threads (base, comm, train), asan all but the
# end-to-end ones (apps, and what carries the label "slow").
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

jobs=$(nproc)
targets=()  # none: all
groups=()   # of tests, the part of a name before the dot; none: all
packages=() # more than a build needs
whole_device_trainings='train\.DevicesTraining\.|train\.DeviceOffloadOnTheHost\.'
whole_device_trainings+='|train\.Copies/DeviceOffload\.(ChangesNoBit|ACheckpointDoesNotKnowOfIt)'
one_of_four='train\.All/TensorExpertTest\.[A-Za-z]*/moe_sgd|train\.All/TensorExpertTest\.[A-Za-z]*/moe_bias'
counts_bytes='train\.ZeroMemory\.|train\.MemoryPlan\.|train\.PipelinePlans\.|train\.SteadyState\.'
counts_bytes+='|train\.[A-Za-z]*\.ThePlan|train\.RoundCompression\.SendsTheBytes'
beside_definition='train\.[A-Za-z]*\.[A-Za-z]*ItsDefin|train\.HybridExperts\.ComputeWhatOneProcess'
sgd_beside_adamw='train\.All/PipelineTest\.[A-Za-z]*/[a-z0-9]*_sgd|train\.All/LayoutsTest\.[A-Za-z]*/[a-z0-9]*_sgd'
sgd_beside_adamw+='|train\.All/TensorParallelTest\.[A-Za-z]*/llama_sgd|train\.All/TensorParallelTest\.[A-Za-z]*/gpt2_sgd'
case "$preset" in
  release) ;;
  asan)
    packages=(--ci)  # clang, which makes this build in half the time
    for list in tests/*/CMakeLists.txt; do
      folder=$(basename "$(dirname "$list")")
      if [ "$folder" != apps ]; then groups+=("$folder"); fi
    done
    targets=("${groups[@]/%/_tests}" fuzzers)  # fuzz/run.sh runs those
    unseen="^(train\.All/SpanningTest\.|train\.All/OffloadLayouts\.|$whole_device_trainings|$one_of_four|$counts_bytes"
    unseen+="|$beside_definition|$sgd_beside_adamw|train\.All/TwoSpeedLayouts\..*sgd|pipeline\.Schedules\.RandomOnes"
    unseen+='|cuda\.Isa/AttentionPartTest\.SomeQueries|cuda\.Isa/AttentionTest\.BatchesDoNotMatter)'
    echo "test.sh: without train.SpanningTest and most of train.OffloadLayouts: samples of layouts, too long here"
    echo "test.sh: without train.DevicesTraining, whole trainings of train.DeviceOffload and two of cuda.Attention:" \
      "emulated devices, likewise"
    echo "test.sh: without what counts bytes, runs beside their definition, 1000 random schedules, SGD in" \
      "train.PipelineTest, LayoutsTest and TensorParallelTest where AdamW has the same case, and of" \
      "train.TensorExpertTest all styles but one: minutes here"
    export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1:strict_string_checks=1}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1} ;;
  tsan)
    packages=(--ci)  # clang, with whose runtime the tests take half the time
    for folder in base comm train; do
      if [ -f "tests/$folder/CMakeLists.txt" ]; then groups+=("$folder"); fi
    done
    targets=("${groups[@]/%/_tests}")
    unseen='^(comm\.Gloo\.|comm\.Mpi\.|comm\.Nccl\.EveryCallByDevices$|comm\.Nccl\.GroupsOfSomeRanksAndOfOne$'
    unseen+="|train\.All/SpanningTest\.|train\.All/OffloadLayouts\.|train\.All/TwoSpeedLayouts\."
    unseen+="|$whole_device_trainings|$one_of_four|$counts_bytes|$beside_definition|$sgd_beside_adamw"
    unseen+='|train\.Compression\.OfRounds|train\.CompressionLayouts)'
    echo "test.sh: without comm.Gloo and comm.Mpi: the thread sanitizer sees the threads of those libraries only in part"
    echo "test.sh: without train.DevicesTraining, whole trainings of train.DeviceOffload and two of comm.Nccl: emulated" \
      "devices that talk take minutes here"
    echo "test.sh: without train.SpanningTest, train.TwoSpeedLayouts and most of train.OffloadLayouts: samples of" \
      "layouts, too long here"
    echo "test.sh: without what counts bytes, train.CompressionLayouts, runs beside their definition, SGD in" \
      "train.PipelineTest, LayoutsTest and TensorParallelTest where AdamW has the same case, and of" \
      "train.TensorExpertTest all styles but one: minutes here"
    export TSAN_OPTIONS=${TSAN_OPTIONS-halt_on_error=1:second_deadlock_stack=1} ;;
  *) echo "test.sh: error: preset: got '$preset', expected release, asan or tsan" >&2; exit 2 ;;
esac
select=(${unseen:+-E "$unseen"})
if [ ${#groups[@]} -gt 0 ]; then
  select+=(-LE slow -R "^($(IFS='|'; echo "${groups[*]}"))(\.|_tests_NOT_BUILT)")
  targets=(--target "${targets[@]}")
fi

[ "$install" = no ] || scripts/install-deps.sh "${packages[@]}" || give_up "installing the packages failed"

build=build/$preset
started=$SECONDS
if ! messages=$(cmake --preset "$preset" 2>&1); then
  echo "$messages" >&2
  give_up "configuring the build failed"
fi
cmake --build "$build" -j "$jobs" "${targets[@]}" || give_up "the build failed; the messages above say where"
echo "test.sh: built $build in $((SECONDS - started)) s"

if [ -z "${ATHANOR_TEST_DATA-}" ] && [ -d ../shared/data ]; then
  ATHANOR_TEST_DATA=$(cd ../shared/data && pwd)
fi
if [ -n "${ATHANOR_TEST_DATA-}" ]; then export ATHANOR_TEST_DATA; fi

# LLVM 14's thread sanitizer cannot start where the kernel scatters addresses over more than 28 bits.
runner=()
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi

# ctest ignores what it cannot read.
if ctest --test-dir "$build" -N "${select[@]}" 2>&1 | grep RegularExpression >/dev/null; then
  give_up "ctest cannot read the pattern of the tests to leave out"
fi

results=$PWD/$build/results.xml
rm -f "$results"
started=$SECONDS
"${runner[@]}" ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error \
  --output-junit "$results" "${select[@]}" </dev/null | sed -u '/^ *Start /d'
code=${PIPESTATUS[0]}
echo "test.sh: ran the tests of $build in $((SECONDS - started)) s"

[ -s "$results" ] || give_up "ctest wrote no results (exit code $code)"
count() { sed -n "/<testsuite /,/>/s/.*\b$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -n 1; }
total=$(count tests) failed=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
if [ "$skipped" -gt 0 ]; then
  echo "Skipped tests, with their reasons:"
  awk '/<testcase /{match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7)}
       /: Skipped$/{getline reason; print "  " name ": " reason}
       match($0, /SKIPPED: /){print "  " name ": " substr($0, RSTART + RLENGTH)}' "$results" |
    sed 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
fi
if [ "$failed" -gt 0 ]; then
  echo "Failed tests, with what they said first:"  # .ci/run says it again at its end
  awk '/<testcase /{match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7); said = 0
                    wrong = /status="fail"/; if (wrong) print "  " name}
       wrong && !/<\/?(testcase|failure|system-out)|^\[|^Note:|^$/ && said++ < 8{print "    " $0}' "$results" |
    cut -c -300 | sed 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
fi
passed=$((total - failed - skipped))
if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
