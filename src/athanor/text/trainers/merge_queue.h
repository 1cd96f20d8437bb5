// The pairs that may be merged next: the one with the largest count first, of equal counts the smallest pair.
//
//   MergeQueue queue;  queue.push({.count = 3, .pair = 7});  queue.push({.count = 5, .pair = 9});
//   while (!queue.empty()) visit(queue.pop());            // 9, then 7
//
// Most pairs are too rare to be merged at all. So candidates wait in bags by the size of their count, and only those of
// the highest bag are kept in order. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::trainers {

struct MergeCandidate {
  int64_t count;  // at least 1
  uint64_t pair;
  bool operator<(const MergeCandidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class MergeQueue {
 public:
  void push(const MergeCandidate& candidate) {
    ++size_;
    // The heap takes larger counts, too.
    const size_t bag = std::min(bag_of(candidate.count), highest_);
    bags_[bag].push_back(candidate);
    if (bag == highest_) std::push_heap(bags_[bag].begin(), bags_[bag].end());
  }
  bool empty() const { return size_ == 0; }

  MergeCandidate pop() {
    while (bags_[highest_].empty()) {
      --highest_;
      std::make_heap(bags_[highest_].begin(), bags_[highest_].end());
    }
    auto& heap = bags_[highest_];
    std::pop_heap(heap.begin(), heap.end());
    const MergeCandidate top = heap.back();
    heap.pop_back();
    --size_;
    return top;
  }

 private:
  // Four bags to each power of two.
  static size_t bag_of(int64_t count) {
    const auto bits = static_cast<uint64_t>(count);
    const int width = std::bit_width(bits);
    return static_cast<size_t>(width) * 4 + (width < 3 ? 0 : bits >> (width - 3) & 3);
  }

  std::array<std::vector<MergeCandidate>, 256> bags_;
  size_t highest_ = 255;  // its bag is a heap
  size_t size_ = 0;
};

}  // namespace athanor::text::trainers
