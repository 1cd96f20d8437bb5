#!/bin/sh
# Runs the tests of the kernels on the machine's first GPU: on_the_gpu.sh CUDA_TESTS ATHANOR_CUDA_SO FILTER
set -eu
if ! [ -e "$2" ]; then
  echo "SKIPPED: $2 is not built (it needs nvcc: cmake --preset cuda)"
  exit 77
fi
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "SKIPPED: this machine has no GPU that the driver answers for"
  exit 77
fi
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
ATHANOR_TEST_CUDA=$2 exec "$1" --gtest_filter="$3"
