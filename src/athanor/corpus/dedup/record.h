// A key and the place that has it, as scratch files hold them.
//
//   const KeyRecord record{.key = hash_key("a line"), .document = 17, .begin = 0, .end = 6};
//
// Records are ordered by key, document and place, so that the first of those with one key is the one to keep. The
// number of a document is its place in the corpus, the same in every pass. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "athanor/corpus/dedup/key.h"

namespace athanor::corpus::dedup {

struct KeyRecord {
  Key key = {};
  uint64_t document = 0;
  uint32_t begin = 0, end = 0;  // bytes of its text
  bool operator==(const KeyRecord&) const = default;
  bool operator<(const KeyRecord& other) const {
    return std::tie(key, document, begin, end) < std::tie(other.key, other.document, other.begin, other.end);
  }
};
static_assert(sizeof(KeyRecord) == 32 && std::is_trivially_copyable_v<KeyRecord>);

// The same place under a key that says document and position alone: sorted, the parts to cut out of each document
// come together and in the order of the corpus.
inline KeyRecord by_place(const KeyRecord& record) {
  return {{record.document, record.begin}, record.document, record.begin, record.end};
}

}  // namespace athanor::corpus::dedup
