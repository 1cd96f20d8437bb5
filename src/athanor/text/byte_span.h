// A part of a text: the bytes from begin to end, end excluded.
//
//   const ByteSpan word{4, 9};
//   text.substr(word.begin, word.end - word.begin);
//
// Thread rule: plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "athanor/base/namespaces.h"

namespace athanor::text {

struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

// Whether a part shares a byte with one of the spans, which are in order and apart from each other.
inline bool touches(std::span<const ByteSpan> spans, size_t begin, size_t end) {
  const auto next =
      std::ranges::partition_point(spans, [&](const ByteSpan& span) { return span.end <= begin; });
  return next != spans.end() && next->begin < end;
}

}  // namespace athanor::text

namespace athanor {
using text::ByteSpan;
}  // namespace athanor
