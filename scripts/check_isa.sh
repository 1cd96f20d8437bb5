#!/usr/bin/env bash
# Code compiled for one instruction set stays in its own objects: scripts/check_isa.sh [BUILD_FOLDER]
#
# The linker keeps one copy of every inline or template function (a weak symbol). If an AVX-512 object held one, an
# older processor could be given that copy and die of an illegal instruction. So such objects may define no weak
# symbol at all, and what they define globally lies in a namespace named after the instruction set, but for their
# tables of functions: athanor::kernels::<isa>_rows, athanor::comm::<isa>_sum_rows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1-build/release}
mapfile -t objects < <(find "$build/src/athanor" -name '*.o' 2>/dev/null |
  grep -E '/athanor_[a-z]+_(generic|avx2|avx512|avx512_bf16|amx)\.dir/' | sort)
if [ ${#objects[@]} -eq 0 ]; then
  echo "check_isa: error: no objects of athanor_<library>_<isa> under $build; build first" >&2
  exit 1
fi
offences=0
for object in "${objects[@]}"; do
  isa=${object%%.dir/*}
  isa=$(sed 's/.*\/athanor_[a-z]*_//' <<<"$isa")
  leaks=$(nm -C --defined-only "$object" | awk -v isa="$isa" '
    {type = $2; name = $0; sub(/^[0-9a-f]+ . /, "", name); sub(/\(.*/, "", name)}
    type ~ /^[WwVvu]$/ {print "weak: " name; next}
    name ~ ("^athanor::[a-z_:]+::" isa "_([a-z]+_)?rows$") {next}
    type ~ /^[A-Z]$/ && name !~ ("(^|[ :])" isa "::") {print "outside namespace " isa ": " name}')
  if [ -n "$leaks" ]; then
    while read -r leak; do echo "check_isa: ${object#"$build"/}: $leak"; done <<<"$leaks"
    offences=1
  fi
done
[ "$offences" -eq 0 ] || exit 1
echo "check_isa: ${#objects[@]} objects keep to their own namespaces"
