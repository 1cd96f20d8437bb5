// The counts and offsets of a general exchange (all_to_all_v): rows of any length between all pairs of ranks. gather
// and scatter are special cases.
//
//   const Exchange gather = Exchange::to_root(n, root, count);
//   gather.count(r, root) == count;     gather.in_offset(r, root) == 0;     gather.out_offset(r, root) == r * count;
//
// In send and receive buffers rows are contiguous in rank order. A rank's *stream* is what it sends to other ranks: its
// rows without its own, contiguous. Thread rule: a value.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm {

class Exchange {
 public:
  // counts[r * size + s] elements go from rank r to rank s.
  Exchange(int size, std::vector<int64_t> counts);
  static Exchange to_root(int size, int root, int64_t count);
  static Exchange from_root(int size, int root, int64_t count);

  int size() const { return size_; }
  int64_t count(int from, int to) const { return counts_[at(from, to)]; }
  int64_t in_offset(int from, int to) const;      // of the row in the buffer of `from`
  int64_t out_offset(int from, int to) const;     // of the row in the buffer of `to`
  int64_t stream_offset(int from, int to) const;  // of the row in the stream of `from`
  int64_t stream_length(int from) const;
  int64_t longest_stream() const;

 private:
  size_t at(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(size_) + static_cast<size_t>(to);
  }
  int size_;
  std::vector<int64_t> counts_;
};

}  // namespace athanor::comm
