// A prefix tree over byte strings; each string has a value of 0 or more.
//
//   Trie trie;  trie.add("the", 7);  trie.add("there", 8);
//   trie.for_each_prefix("therefore", 0, [&](size_t end, int32_t value) { ... });   // (3, 7), (5, 8)
//
// Thread rule: const methods from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "athanor/text/flat_map.h"

namespace athanor::text::models {

class Trie {
 public:
  // A key added twice keeps its first value; an empty key is ignored.
  void add(std::string_view key, int32_t value) {
    int32_t node = 0;
    for (const char c : key) {
      int32_t& next = next_[pair_key(node, static_cast<uint8_t>(c))];
      if (next == 0) {
        next = static_cast<int32_t>(values_.size());
        values_.push_back(kNone);
      }
      node = next;
    }
    if (node > 0 && values_[static_cast<size_t>(node)] == kNone) values_[static_cast<size_t>(node)] = value;
  }

  bool empty() const { return values_.size() == 1; }

  // Calls visit(end, value) for every key that matches the text at `at`, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, size_t at, Visit visit) const {
    int32_t node = 0;
    while (at < text.size()) {
      const int32_t* const next = next_.find(pair_key(node, static_cast<uint8_t>(text[at++])));
      if (!next) return;
      node = *next;
      if (const int32_t value = values_[static_cast<size_t>(node)]; value != kNone) visit(at, value);
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  FlatMap<int32_t> next_;               // (node, byte) -> node; node 0 is the root
  std::vector<int32_t> values_{kNone};  // by node
};

}  // namespace athanor::text::models
