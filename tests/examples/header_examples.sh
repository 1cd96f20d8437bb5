#!/usr/bin/env bash
# The examples of the public headers as sources that a build compiles: header_examples.sh OUTPUT_FOLDER SOURCE...
#
# An example is a run of comment lines above a header's first line of code that are indented by three spaces and begin
# with code. It becomes the body of a function with the parameters that contexts.txt gives, a parameter without a type
# having that of given.txt; `{ ... }` is an empty body and a line that begins with "..." is left out. The headers of a
# folder of src/athanor become OUTPUT_FOLDER/FOLDER.cpp; the names are given as SOURCE, so that the build knows them. A
# header with an example that neither contexts.txt nor fragments.txt has, or that both have, is an error.
set -euo pipefail
output=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root/src"

# The examples of a header, each in braces.
examples_of() {
  awk '
    function close_block() {
      if (block != "" && code) printf "  {\n%s  }\n", block
      block = ""
    }
    /^\/\/   +[^ ]/ {
      line = $0; sub(/^\/\//, "", line)
      if (block == "") code = line ~ /^   [^ ]/ && (line ~ /[;{}(,]( *\/\/.*)?$/ || line ~ /^ *(for|if|while) \(/)
      if (line ~ /^ +\.\.\./) next
      gsub(/\{ \.\.\. \}/, "{}", line)
      block = block line "\n"
      next
    }
    {close_block()}
    !/^\/\// {exit}
    END {close_block()}' "$1"
}
mapfile -t headers < <(find athanor -name '*.h' | sort)
# header_of END: the one header whose path ends so.
header_of() {
  local found
  found=$(printf '%s\n' "${headers[@]}" | grep -E "(^|/)${1//./\\.}\$" || true)
  if [ -z "$found" ] || [ "$(wc -l <<<"$found")" -ne 1 ]; then
    echo "header_examples: error: $1: got ${found:-no header}, expected one header whose path ends so" >&2
    exit 1
  fi
  echo "$found"
}

declare -A parameters more listed given given_includes
while IFS='|' read -r parameter includes; do
  case "$parameter" in ''|'#'*) continue ;; esac
  name=$(sed -E 's/^.*[ &*]([A-Za-z_]+) *$/\1/' <<<"$parameter")
  given[$name]=$parameter given_includes[$name]=$includes
done <"$here/given.txt"
while IFS='|' read -r end list includes; do
  end=${end// /}
  case "$end" in ''|'#'*) continue ;; esac
  header=$(header_of "$end")
  all=
  IFS=',' read -ra words <<<"$list"
  for word in "${words[@]}"; do
    name=${word// /}
    if [ -n "$name" ] && [ -n "${given[$name]-}" ]; then word=${given[$name]} includes+=" ${given_includes[$name]}"; fi
    all+=${all:+,}$word
  done
  parameters[$header]=$all more[$header]=$includes listed[$header]=1
done <"$here/contexts.txt"
while read -r end _; do
  case "$end" in ''|'#'*) continue ;; esac
  header=$(header_of "$end")
  if [ -n "${listed[$header]-}" ]; then
    echo "header_examples: error: $header: stands in contexts.txt and in fragments.txt" >&2
    exit 1
  fi
  listed[$header]=fragment
done <"$here/fragments.txt"

rm -rf "$output.new"  # of a run that failed
mkdir -p "$output.new"
for header in "${headers[@]}"; do
  example=$(examples_of "$header")
  [ -n "$example" ] || continue
  case "${listed[$header]-}" in
    '')
      echo "header_examples: error: $header: has an example, expected a line of contexts.txt for it" >&2
      exit 1 ;;
    fragment) continue ;;
  esac
  folder=${header#athanor/}
  folder=${folder%%/*}
  name=${header//[!a-z0-9]/_}
  {
    echo "#include \"$header\""
    for include in ${more[$header]}; do
      case "$include" in '<'*) echo "#include $include" ;; *) echo "#include \"athanor/$include\"" ;; esac
    done
    # Its own, not those of what it declares of others: the longest.
    namespace=$(sed -nE 's/^namespace ([a-z0-9_:]+) \{.*/\1/p' "$header" | awk '{print length, $1}' | sort -n | tail -n 1)
    namespace=${namespace#* }
    echo "namespace $namespace {"
    echo "void example_of_$name(${parameters[$header]}) {"
    echo "$example"
    echo "}"
    echo "}  // namespace $namespace"
  } >>"$output.new/$folder.cpp"
done
mkdir -p "$output"
for source in "$@"; do # those that say what they said keep their time
  new=$output.new/$(basename "$source")
  touch "$new"
  cmp -s "$new" "$source" || cp "$new" "$source"
done
rm -rf "$output.new"
