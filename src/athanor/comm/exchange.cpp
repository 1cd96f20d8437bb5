#include "athanor/comm/exchange.h"

#include <algorithm>

namespace athanor::comm {

Exchange::Exchange(int size, std::vector<int64_t> counts) : size_(size), counts_(std::move(counts)) {}

Exchange Exchange::to_root(int size, int root, int64_t count) {
  Exchange exchange(size, std::vector<int64_t>(static_cast<size_t>(size) * static_cast<size_t>(size), 0));
  for (int r = 0; r < size; ++r) exchange.counts_[exchange.at(r, root)] = count;
  return exchange;
}

Exchange Exchange::from_root(int size, int root, int64_t count) {
  Exchange exchange(size, std::vector<int64_t>(static_cast<size_t>(size) * static_cast<size_t>(size), 0));
  for (int r = 0; r < size; ++r) exchange.counts_[exchange.at(root, r)] = count;
  return exchange;
}

int64_t Exchange::in_offset(int from, int to) const {
  int64_t offset = 0;
  for (int s = 0; s < to; ++s) offset += count(from, s);
  return offset;
}

int64_t Exchange::out_offset(int from, int to) const {
  int64_t offset = 0;
  for (int r = 0; r < from; ++r) offset += count(r, to);
  return offset;
}

int64_t Exchange::stream_offset(int from, int to) const {
  return in_offset(from, to) - (from < to ? count(from, from) : 0);
}

int64_t Exchange::stream_length(int from) const {
  return in_offset(from, size_) - count(from, from);
}

int64_t Exchange::longest_stream() const {
  int64_t longest = 0;
  for (int r = 0; r < size_; ++r) longest = std::max(longest, stream_length(r));
  return longest;
}

}  // namespace athanor::comm
