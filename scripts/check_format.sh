#!/usr/bin/env bash
# Every tracked C++ file is formatted as .clang-format says. Mend with: clang-format -i FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v clang-format >/dev/null; then
  echo "check_format: error: no clang-format; run scripts/install-deps.sh --ci" >&2
  exit 1
fi
# shellcheck disable=SC2016  # $0 is for the inner shell
offences=$(git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 -r -n 1 -P "$(nproc)" \
  bash -c 'clang-format --dry-run -Werror "$0" >/dev/null 2>&1 || echo "check_format: $0: run clang-format -i on it"' |
  sort)
if [ -n "$offences" ]; then
  echo "$offences"
  exit 1
fi
echo "check_format: all files are formatted"
