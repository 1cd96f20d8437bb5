# Manual pages to plain text: awk -f man_to_text.awk < pages
# Macros of man(7) and mdoc(7) lose their dots, fonts are dropped, headings and paragraphs become lines of their own.
# A line that starts with byte 036 names the next page and passes unchanged. Made to give readable prose with the awk
# of a bare system, not to typeset.

function plain(text) {  # without escapes
  gsub(/\\f(\[[^]]*\]|\([^ ][^ ]|[A-Za-z0-9])/, "", text)
  gsub(/\\s[-+]?[0-9]/, "", text)
  gsub(/\\[hvwlLobDkx]'[^']*'/, "", text)
  gsub(/\\\*(\[[^]]*\]|\([^ ][^ ]|[^\[(])/, "", text)
  gsub(/\\n[-+]?(\[[^]]*\]|\([^ ][^ ]|[a-z])/, "", text)
  gsub(/\\(\(|\[)(em|en|hy)\]?/, "-", text)
  gsub(/\\(\(|\[)(aq|cq|oq|rs)\]?/, "'", text)
  gsub(/\\(\(|\[)(dq|lq|rq)\]?/, "\"", text)
  gsub(/\\(\(|\[)bu\]?/, "*", text)
  gsub(/\\(\(|\[)ha\]?/, "^", text)
  gsub(/\\(\(|\[)ti\]?/, "~", text)
  gsub(/\\(\(|\[)ga\]?/, "`", text)
  gsub(/\\(\(|\[)ba\]?/, "|", text)
  gsub(/\\(\(|\[)<=\]?/, "<=", text)
  gsub(/\\(\(|\[)>=\]?/, ">=", text)
  gsub(/\\(\(|\[)co\]?/, "(c)", text)
  gsub(/\\\[[^]]*\]|\\\([^ ][^ ]/, "", text)
  gsub(/\\-/, "-", text)
  gsub(/\\[ ~0t]/, " ", text)
  gsub(/\\["#].*$/, "", text)
  gsub(/\\e|\\\\/, "\001", text)
  gsub(/\\[^ ]|\\$/, "", text)
  gsub(/\001/, "\\", text)
  return text
}

# Arguments of a macro, quotes taken off, put together with `glue` between.
function arguments(text, glue,    out, word, first) {
  first = 1
  gsub(/\\ /, "\\~", text)
  while (text != "") {
    sub(/^[ \t]+/, "", text)
    if (text == "") break
    if (substr(text, 1, 1) == "\"" && match(substr(text, 2), /"/)) {
      word = substr(text, 2, RSTART - 1); text = substr(text, RSTART + 2)
    } else if (match(text, /[ \t]/)) {
      word = substr(text, 1, RSTART - 1); text = substr(text, RSTART)
    } else {word = text; text = ""}
    out = out (first ? "" : glue) word
    first = 0
  }
  return plain(out)
}

# The lines of a paragraph become one line, joined by a space except beside Chinese (bytes above 177).
function emit(text) {
  if (text ~ /^[ \t]*$/) {gap = 1; return}
  sub(/[ \t]+$/, "", text)
  if (gap || cut || verbatim || text ~ /^[ \t]/) flush()
  if (gap && !fresh) print ""
  if (held == "") held = text
  else if (held ~ /[\200-\377]$/ || text ~ /^[\200-\377]/) held = held text
  else held = held " " text
  gap = 0; fresh = 0
  cut = tag
  tag = 0
}

function flush() {
  if (held != "") print held
  held = ""; cut = 0
}

function heading(text) {
  gap = 1
  emit(text)
  cut = 1
}

/^\036/ {flush(); print; skipping = 0; table = 0; gap = 0; fresh = 1; verbatim = 0; next}
{sub(/\r$/, "")}
skipping {if ($0 ~ /^\.\.[ \t]*$/ || $0 ~ /^\.ig_end/) skipping = 0; next}
table {if ($0 ~ /^\.TE/) table = 0; next}
/^['.][ \t]*\\"/ || /^'/ {next}
/^\.[ \t]*(de|am|ig)([ \t]|$)/ {skipping = 1; next}
/^\.TS/ {table = 1; next}
/^\.[ \t]*(SH|Sh|SS|Ss)([ \t]|$)/ {sub(/^\.[ \t]*S[HhSs][ \t]*/, ""); if ($0 != "") heading(arguments($0, " ")); next}
/^\.[ \t]*(nf|EX|Bd)([ \t]|$)/ {verbatim = 1; cut = 1; next}
/^\.[ \t]*(fi|EE|Ed)([ \t]|$)/ {verbatim = 0; cut = 1; next}
/^\.[ \t]*(PP|P|LP|Pp|sp|br|RS|RE|TP|TQ|HP|It|Bl|El)([ \t]|$)/ {
  if ($1 ~ /^\.(PP|P|LP|Pp|sp|HP|TP|It)$/) gap = 1
  cut = 1
  tag = $1 ~ /^\.T[PQ]$/
  if ($1 == ".It") {sub(/^\.It[ \t]*/, ""); if ($0 != "") heading(arguments($0, " "))}
  next
}
/^\.[ \t]*IP([ \t]|$)/ {
  sub(/^\.[ \t]*IP[ \t]*/, ""); gap = 1
  sub(/[ \t]+[0-9]+[a-z]?[ \t]*$/, "")
  if ($0 != "") heading(arguments($0, " "))
  next
}
/^\.[ \t]*(BR|RB|IR|RI|BI|IB)[ \t]/ {sub(/^\.[ \t]*[A-Z]+[ \t]*/, ""); emit(arguments($0, "")); next}
/^\.[ \t]*(B|I|SM|SB|Nm|Nd|Fl|Ar|Xr|Em|Pa|Li|Cm|Va|Fn|Ev|Dv|Er|Dq|Sq|Ql|Op|Tn|UR|MT|OP)[ \t]/ {
  sub(/^\.[ \t]*[A-Za-z]+[ \t]*/, ""); emit(arguments($0, " ")); next
}
/^\./ {next}
{emit(plain($0))}
END {flush()}
