#include "athanor/text/unicode/clusters.h"

#include "athanor/text/unicode/properties.h"
#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {
namespace {

enum class Cluster : uint8_t {  // the order of scripts/unicode_tables.mjs
  other,
  control,
  extend,
  spacing_mark,
  prepend,
  l,
  v,
  t,
  lv,
  lvt,
  regional_indicator,
  zwj,
};
constexpr uint32_t kPictograph = 16;

struct Member {
  Cluster kind = Cluster::other;
  bool pictograph = false;
};

Member member_of(uint32_t c) {
  if (c >= ' ' && c < 0x7F) return {};
  if (c < ' ' || c == kInvalidByte) return {Cluster::control, false};
  const uint32_t value = value_in(kClusters, kClustersSize, c);
  return {static_cast<Cluster>(value & (kPictograph - 1)), (value & kPictograph) != 0};
}

// Whether a syllable of Hangul goes on.
bool joins_hangul(Cluster a, Cluster b) {
  if (a == Cluster::l) return b == Cluster::l || b == Cluster::v || b == Cluster::lv || b == Cluster::lvt;
  if (a == Cluster::lv || a == Cluster::v) return b == Cluster::v || b == Cluster::t;
  return (a == Cluster::lvt || a == Cluster::t) && b == Cluster::t;
}

}  // namespace

size_t cluster_end(std::string_view text, size_t at) {
  const CodePoint first = decode_utf8(text, at);
  Member last = member_of(first.value);
  size_t end = at + first.size;
  if (first.value == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  if (last.kind == Cluster::control) return end;
  bool flag_is_open = last.kind == Cluster::regional_indicator;
  bool after_pictograph = last.pictograph;  // with nothing but extenders behind it
  while (end < text.size()) {
    const CodePoint c = decode_utf8(text, end);
    const Member next = member_of(c.value);
    const bool goes_on = next.kind == Cluster::extend || next.kind == Cluster::zwj ||
                         next.kind == Cluster::spacing_mark ||
                         (last.kind == Cluster::prepend && next.kind != Cluster::control) ||
                         joins_hangul(last.kind, next.kind) ||
                         (last.kind == Cluster::zwj && after_pictograph && next.pictograph) ||
                         (last.kind == Cluster::regional_indicator && flag_is_open &&
                          next.kind == Cluster::regional_indicator);
    if (!goes_on) break;
    flag_is_open = next.kind == Cluster::regional_indicator && last.kind != Cluster::regional_indicator;
    if (next.kind != Cluster::extend && next.kind != Cluster::zwj) after_pictograph = next.pictograph;
    last = next;
    end += c.size;
  }
  return end;
}

}  // namespace athanor::text::unicode
