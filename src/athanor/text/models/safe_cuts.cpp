#include "athanor/text/models/safe_cuts.h"

#include "athanor/text/flat_map.h"
#include "athanor/text/unicode.h"

namespace athanor::text::models {
namespace {

uint64_t key_of(uint32_t left, uint32_t right) {
  return pair_key(static_cast<int32_t>(left), static_cast<int32_t>(right));
}

// Of text that is UTF-8.
uint32_t last_code_point(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return decode_utf8(text, at).value;
}

}  // namespace

void SafeCuts::add(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  const uint32_t a = last_code_point(left), b = decode_utf8(right, 0).value;
  if (common(a) < kNumCommon && common(b) < kNumCommon)
    joined_[common(a)].set(common(b));
  else
    others_.add(key_of(a, b));
}

bool SafeCuts::may_join(uint32_t left, uint32_t right) const {
  const uint32_t a = common(left), b = common(right);
  return a < kNumCommon && b < kNumCommon ? joined_[a].test(b) : others_.may_hold(key_of(left, right));
}

size_t SafeCuts::part_end(std::string_view word, size_t at) const {
  CodePoint left = decode_utf8(word, at);
  at += left.size;
  while (at < word.size()) {
    const CodePoint right = decode_utf8(word, at);
    if (!may_join(left.value, right.value)) break;
    at += right.size;
    left = right;
  }
  return at;
}

}  // namespace athanor::text::models
