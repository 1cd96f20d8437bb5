#!/usr/bin/env bash
# Where nvcc, its headers and libraries are found: the CUDA plug-in, and the module of NCCL where its headers are, compile for every architecture,
# link, and export their one symbol each. Elsewhere says that it was skipped.
#
#   scripts/check_cuda.sh [BUILD_FOLDER]          # build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1-build/release}
[ -e "$build/build.ninja" ] || cmake --preset release >/dev/null
if ! ninja -C "$build" -t query athanor_cuda >/dev/null 2>&1; then
  echo "check_cuda: SKIPPED: no nvcc, or not the headers and libraries that the plug-in needs (cmake says which)"
  exit 0
fi
# A compiler without its own headers is none.
nvcc=$(sed -n 's/^NVCC:[A-Z]*=//p' "$build/CMakeCache.txt")
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo '__global__ void nothing() {} void launch() { nothing<<<1, 1>>>(); }' >"$probe/probe.cu"
if ! "$nvcc" -std=c++20 -arch=sm_90 -c "$probe/probe.cu" -o "$probe/probe.o" >"$probe/messages" 2>&1; then
  echo "check_cuda: SKIPPED: $nvcc cannot compile an empty kernel: $(grep -m 1 . "$probe/messages")"
  exit 0
fi
start=$SECONDS
for module in athanor_cuda athanor_nccl; do
  if ! ninja -C "$build" -t query $module >/dev/null 2>&1; then
    echo "check_cuda: $module: SKIPPED: there are no headers of NCCL"
    continue
  fi
  ninja -C "$build" $module | tail -n 1
  nm -D --defined-only "$build/$module.so" | grep -q " ${module}_calls$" || {
    echo "check_cuda: error: $build/$module.so does not export ${module}_calls" >&2
    exit 1
  }
done
echo "check_cuda: the plug-ins compile ($((SECONDS - start)) s)"
