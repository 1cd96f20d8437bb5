#!/usr/bin/env bash
# The library prints nothing, ends no process and reads no environment; only apps/ does (law 8).
#
# A line with a reason to differ says so: "// check_library: <reason>".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Calls of free functions of these names, not of members or of functions of a namespace of ours.
calls='(^|[^A-Za-z0-9_.>:])(std::|::)?(getenv|secure_getenv|setenv|putenv|abort|exit|_exit|_Exit|quick_exit|terminate|printf|vprintf|puts|putchar|perror)[[:space:]]*\('
streams='std::(cout|cerr|clog|cin)\b|\b(stdout|stderr)\b|(fmt|std)::print(ln)?[[:space:]]*\(|#[[:space:]]*include[[:space:]]*<iostream>'
offences=$(git grep -nE "$calls|$streams" -- 'src/athanor/*.h' 'src/athanor/*.cpp' 'src/athanor/*.cu' |
  grep -vE '^[^:]*:[0-9]+:[[:space:]]*//|// check_library: ' |
  grep -vE '^[^:]*:[0-9]+:[[:space:]]*(virtual |static |inline )*[A-Za-z_:<>]+[*&]? (abort|terminate)\(' || true)
if [ -n "$offences" ]; then
  while read -r offence; do echo "check_library: $offence"; done <<<"$offences"
  exit 1
fi
echo "check_library: the library keeps silent"
