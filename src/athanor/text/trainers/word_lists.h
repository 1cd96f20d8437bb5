// Lists of words, of which most hold one: such a list is its handle, and takes no memory.
//
//   WordLists lists;  WordLists::List seen = WordLists::kNone;
//   lists.add(seen, 17);  lists.add(seen, 17);  lists.add(seen, 40);
//   for (const uint32_t word : lists.take(seen)) visit(word);     // 17 40; `seen` is empty again
//
// A word that is added twice in turn stands in its list once. Words are below 2^31. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::trainers {

class WordLists {
 public:
  using List = uint32_t;
  static constexpr List kNone = 0;
  static constexpr uint32_t kMaxWords = uint32_t{1} << 31;

  void add(List& list, uint32_t word) {
    if (list == kNone) {
      list = kOneWord | word;
    } else if ((list & kOneWord) != 0) {
      if (list == (kOneWord | word)) return;
      lists_.push_back({list & ~kOneWord, word});
      list = static_cast<List>(lists_.size());
    } else if (auto& words = lists_[list - 1]; words.back() != word) {
      words.push_back(word);
    }
  }

  // Moves the words of the second list behind those of the first.
  void append(List& list, List& more) {
    if (list == kNone)
      list = std::exchange(more, kNone);
    else
      for (const uint32_t word : take(more)) add(list, word);
  }

  std::vector<uint32_t> take(List& list) {
    const List taken = std::exchange(list, kNone);
    if (taken == kNone) return {};
    if ((taken & kOneWord) != 0) return {taken & ~kOneWord};
    return std::exchange(lists_[taken - 1], {});
  }

 private:
  static constexpr uint32_t kOneWord = kMaxWords;

  std::vector<std::vector<uint32_t>> lists_;  // a handle is 1 + the index
};

}  // namespace athanor::text::trainers
