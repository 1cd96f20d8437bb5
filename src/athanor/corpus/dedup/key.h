// A key: documents, or parts of documents, that share one are copies of each other.
//
//   const Key key = hash_key("the text");
//
// Keys are 128 bits of XXH3, so that two texts of a corpus of 10^12 have one by chance with probability 10^-15. They
// lie in scratch files of one build. Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

struct Key {
  uint64_t high = 0, low = 0;
  bool operator==(const Key&) const = default;
  bool operator<(const Key& other) const { return std::tie(high, low) < std::tie(other.high, other.low); }
};

Key hash_key(std::string_view bytes, uint64_t seed = 0);

}  // namespace athanor::corpus::dedup
