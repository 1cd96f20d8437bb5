// A part of a text: the bytes from begin to end, end excluded.
//
//   const ByteSpan word{4, 9};
//   text.substr(word.begin, word.end - word.begin);
//
// Thread rule: plain data.
#pragma once

#include <cstddef>

#include "athanor/base/namespaces.h"

namespace athanor::text {

struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

}  // namespace athanor::text

namespace athanor {
using text::ByteSpan;
}  // namespace athanor
