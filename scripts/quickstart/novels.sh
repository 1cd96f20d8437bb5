#!/usr/bin/env bash
# Jane Austen's six novels as plain text: scripts/quickstart/novels.sh FOLDER
#
# FOLDER is data/ of R's package janeaustenr, which Debian ships as r-cran-janeaustenr: Rdata.rdx lists offset and
# length of each novel in Rdata.rdb, where a novel is a zlib stream of a serialised vector of lines. Neither R nor
# anything else outside a bare system is needed to read that. Each novel is printed after a line of byte 036, its
# paragraphs as lines with an empty line between them; headings, signatures and the marks of italics are left out.
set -euo pipefail
export LC_ALL=C
folder=${1:?usage: novels.sh FOLDER}

places() {  # "offset length" of each entry: vectors of two integers (type 13), big-endian
  gzip -dc "$folder/Rdata.rdx" | od -An -v -tu1 -w1 | awk '
    function number(i) {return ((byte[i] * 256 + byte[i + 1]) * 256 + byte[i + 2]) * 256 + byte[i + 3]}
    {byte[NR] = $1 + 0}
    END {for (i = 1; i + 15 <= NR; i++) if (number(i) == 13 && number(i + 4) == 2) print number(i + 8), number(i + 12)}'
}

# The first four bytes of an entry are its size. gzip takes a zlib stream when the header of two bytes is replaced by
# gzip's; it then complains of the checksum at the end only.
entry() {
  { printf '\037\213\010\0\0\0\0\0\0\0'; tail -c +"$(($1 + 7))" "$folder/Rdata.rdb" | head -c "$(($2 - 6))"; } |
    gzip -dc 2>/dev/null || true
}

lines() {  # each string follows its flags and type 9 and a length below 256
  tr '\000' '\001' | awk 'BEGIN {RS = "\001[\001\004](\001|\200|\100)\t\001\001\001"} NR > 1 {print substr($0, 2)}'
}

paragraphs() {
  awk '
    function flush() {
      gsub(/_/, "", text); gsub(/  +/, " ", text)
      if (text ~ /[a-z]/ && text ~ / / && text ~ /[].,;:!?"'\''*)-]$/) print text "\n"
      text = ""
    }
    {sub(/\r$/, ""); gsub(/^[ \t]+|[ \t]+$/, "")}
    /^$/ {flush(); next}
    {text = text (text == "" ? "" : " ") $0}
    END {flush()}'
}

places | while read -r offset length; do
  printf '\036novel at %s\n' "$offset"
  entry "$offset" "$length" | lines | paragraphs
done
