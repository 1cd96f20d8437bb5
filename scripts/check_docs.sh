#!/usr/bin/env bash
# The documents name files that exist: relative links, and paths in `backquotes`, from the root, src/athanor or the
# document's own folder. `a.{h,cpp}` is both files; names with <, *, $ or … are patterns, not files. Paths under
# build/ and runs/ are made later and are not looked for. docs/dependencies.md has every package that
# scripts/install-deps.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tops=$(git ls-files | cut -d/ -f1 | sort -u | tr '\n' ' ')
offences=0
mapfile -t documents < <(git ls-files -- '*.md')

found() {  # found DOCUMENT PATH
  local folder
  folder=$(dirname "$1")
  [ -e "$2" ] || [ -e "$folder/$2" ] || [ -e "src/athanor/$2" ] || [ -e "src/$2" ]
}

for document in "${documents[@]}"; do
  while IFS=$'\t' read -r kind line path; do
    if [ "$kind" = link ]; then
      path=${path%%#*}
      [ -z "$path" ] || [ -e "$(dirname "$document")/$path" ] && continue
    else
      found "$document" "$path" && continue
      # A word with a slash is a path only if it ends like a file or starts in a folder of this repository.
      case "$path" in
        build/*|runs/*) continue ;;
        *.h|*.cpp|*.cu|*.md|*.sh|*.cmake|*.txt|*.toml) ;;
        *) case " $tops " in *" ${path%%/*} "*) ;; *) continue ;; esac ;;
      esac
    fi
    echo "check_docs: $document:$line: '$path' does not exist"
    offences=$((offences + 1))
  done < <(awk '
    /^```/ {fenced = !fenced; next}
    fenced {next}
    {
      text = $0
      while (match(text, /\]\([^)]+\)/)) {
        link = substr(text, RSTART + 2, RLENGTH - 3); text = substr(text, RSTART + RLENGTH)
        if (link !~ /^(https?:|mailto:|#)/) print "link\t" NR "\t" link
      }
      text = $0
      while (match(text, /`[^`]+`/)) {
        word = substr(text, RSTART + 1, RLENGTH - 2); text = substr(text, RSTART + RLENGTH)
        sub(/^\.\//, "", word); sub(/:[A-Za-z0-9_]+(\(\))?$/, "", word); sub(/\/$/, "", word)
        if (match(word, /\{[a-z_0-9,.]+\}/)) {
          head = substr(word, 1, RSTART - 1); tail = substr(word, RSTART + RLENGTH)
          n = split(substr(word, RSTART + 1, RLENGTH - 2), part, ",")
          for (i = 1; i <= n; i++) names[i] = head part[i] tail
        } else {n = 1; names[1] = word}
        for (i = 1; i <= n; i++)
          if (names[i] ~ /^[A-Za-z0-9_.][A-Za-z0-9_.\/-]*$/ &&
              (names[i] ~ /\// || names[i] ~ /^[A-Za-z0-9_-]+\.(md|sh)$/)) print "name\t" NR "\t" names[i]
      }
    }' "$document")
done
while read -r package; do
  if ! grep -qF "\`$package\`" docs/dependencies.md; then
    echo "check_docs: docs/dependencies.md: lacks the package '$package' of scripts/install-deps.sh"
    offences=$((offences + 1))
  fi
done < <(awk '/^(ci_)?packages=\(/ {listing = 1; sub(/^.*\(/, "")}
              listing {last = /\)/; sub(/\).*/, ""); for (i = 1; i <= NF; i++) print $i; listing = !last}' \
  scripts/install-deps.sh)
[ "$offences" -eq 0 ] || exit 1
echo "check_docs: ${#documents[@]} documents name only files that exist"
