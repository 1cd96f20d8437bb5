#!/usr/bin/env bash
# Text for the quickstart: scripts/quickstart/corpus.sh FOLDER
#
# Makes FOLDER/data/{en,zh,code}/*.txt from what any Debian 12 machine can have: six English novels, Chinese guides and
# manual pages out of packages (apt-get download; nothing is installed), C headers of the system. Novels, because a small
# model learns to write in one steady voice sooner than from manuals. Downloads stay in FOLDER/packages, so a second run
# needs no network. What cannot be had is replaced by text of this machine, or its channel is left out, and both are
# said. The same packages give the same files.
set -euo pipefail
export LC_ALL=C
folder=${1:?usage: corpus.sh FOLDER}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder/packages"
folder=$(cd "$folder" && pwd)

packages=(r-cran-janeaustenr debian-reference-zh-cn maint-guide-zh-cn debian-faq-zh-cn manpages-zh)
least_bytes=300000   # a channel with less is not worth training on

say() { echo "quickstart: $*"; }
have() { compgen -G "$folder/packages/$1_*.deb" >/dev/null; }

# apt-get writes into the current folder; its own user may not, hence Sandbox::User.
download() { (cd "$folder/packages" && apt-get download -qq -o APT::Sandbox::User=root "$@" 2>&1); }

fetch_packages() {
  local package missing=() messages
  for package in "${packages[@]}"; do have "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "downloading ${missing[*]}"
  if messages=$(download "${missing[@]}"); then return 0; fi
  say "the download failed ($(tail -n 1 <<<"$messages")); updating the package lists"
  if [ "$(id -u)" -eq 0 ]; then apt-get update -qq || true
  elif command -v sudo >/dev/null; then sudo apt-get update -qq || true
  fi
  for package in "${missing[@]}"; do
    if ! have "$package" && ! messages=$(download "$package"); then
      say "warning: no package $package: $(tail -n 1 <<<"$messages")"
    fi
  done
}

# The streams below are documents one after the other, each after a line of byte 036 and its name.

guides() {  # guides FILE.txt.gz...: long plain texts
  local file
  for file in "$@"; do
    [ -f "$file" ] || continue
    printf '\036%s\n' "$(basename "$file" .txt.gz)"
    gzip -dc "$file"
    echo
  done
}

pages() {  # pages FOLDER: manual pages, without the notice that every translated one ends with
  local file
  [ -d "$1" ] || return 0
  find "$1" -type f -name '*.gz' | sort | while read -r file; do
    printf '\036%s\n' "$(basename "$file" .gz)"
    gzip -dc "$file" | grep -v -e '手册页计划' -e '^.SH "\?跋"\?$' || true
    echo
  done | awk -f "$here/man_to_text.awk"
}

plain_files() {  # plain_files < names
  local file
  while read -r file; do
    printf '\036%s\n' "${file##*/}"
    cat "$file"
    echo
  done
}

# write_channel NAME BYTES: cuts a stream into files of about 12 kB at empty lines, valid UTF-8, until they hold so many
# bytes. Their numbers mix the sources: what a run holds out is the end of that order, a fair sample of the channel.
write_channel() {
  local out=$folder/data/$1 bytes
  mkdir -p "$out"
  iconv -c -f UTF-8 -t UTF-8 | awk -v out="$out" -v most="$2" '
    function flush() {
      if (length(text) > 400) {  # shorter ones are stubs and notices
        printf "%s", text > (file = sprintf("%s/%05d.txt", out, (count++ * 6151) % 99991))
        close(file); total += length(text)
      }
      text = ""; blank = 0
    }
    total > most {next}
    /^\036/ {flush(); next}
    {sub(/[ \t\r]+$/, ""); gsub(/\f/, "")}
    $0 == "" {if (length(text) > 12000) flush(); else blank = 1; next}
    {text = text (blank && text != "" ? "\n" : "") $0 "\n"; blank = 0}
    END {flush()}'
  bytes=$(find "$out" -type f -name '*.txt' -printf '%s\n' | awk '{n += $1} END {print n + 0}')
  if [ "$bytes" -lt "$least_bytes" ]; then
    rm -rf "$out"
    return 1
  fi
  say "$(printf '%-4s  %4d documents  %4.1f MB' "$1" "$(find "$out" -type f | wc -l)" "$(awk "BEGIN {print $bytes / 1e6}")")"
}

fetch_packages
rm -rf "$folder/data" "$folder/unpacked"
for package in "$folder"/packages/*.deb; do
  [ -f "$package" ] || continue
  dpkg-deb -x "$package" "$folder/unpacked" || say "warning: '$package' cannot be unpacked; delete it"
done
share=$folder/unpacked/usr/share

novels=$folder/unpacked/usr/lib/R/site-library/janeaustenr/data
{ [ ! -d "$novels" ] || "$here/novels.sh" "$novels"; } | write_channel en 6000000 || {
  say "warning: no novels could be downloaded; using licences and copyright notices of this machine"
  find /usr/share/common-licenses /usr/share/doc -type f \( -path '*/common-licenses/*' -o -name copyright \) | sort |
    plain_files | write_channel en 3000000 || say "warning: no English text here either; the channel en is left out"
}
{
  guides "$share"/debian-reference/debian-reference.zh-cn.txt.gz "$share"/doc/maint-guide-zh-cn/maint-guide.zh-cn.txt.gz \
    "$share"/doc/debian/FAQ/debian-faq.zh-cn.txt.gz
  for section in 1 8 5 7 2 3; do pages "$share/man/zh_CN/man$section"; done
} | write_channel zh 1500000 || say "warning: no Chinese text could be downloaded; the channel zh is left out"
find /usr/include/linux -type f -name '*.h' -size -64k | sort | plain_files | write_channel code 1500000 ||
  say "warning: no C headers in /usr/include/linux; the channel code is left out"

rm -rf "$folder/unpacked"
if ! compgen -G "$folder/data/*/" >/dev/null; then
  echo "quickstart: error: no text to train on: got no packages and no headers, expected a network or a Debian system" >&2
  exit 1
fi
