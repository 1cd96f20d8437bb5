#include "athanor/comm/traffic.h"

#include <iterator>

namespace athanor::comm {

void Traffic::add(Collective operation, int64_t bytes, int64_t calls) {
  auto& sum = operations_[static_cast<size_t>(operation)];
  sum.calls += calls;
  sum.bytes += bytes;
}

OperationTraffic Traffic::total() const {
  OperationTraffic sum;
  for (const auto& operation : operations_) {
    sum.calls += operation.calls;
    sum.bytes += operation.bytes;
  }
  return sum;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (size_t i = 0; i < operations_.size(); ++i)
    add(static_cast<Collective>(i), other.operations_[i].bytes, other.operations_[i].calls);
  return *this;
}

Traffic operator-(const Traffic& later, const Traffic& earlier) {
  Traffic difference = later;
  for (size_t i = 0; i < difference.operations_.size(); ++i)
    difference.add(static_cast<Collective>(i), -earlier.operations_[i].bytes, -earlier.operations_[i].calls);
  return difference;
}

int64_t even_part(int64_t count, int size, int rank) {
  return count / size + (rank < count % size ? 1 : 0);
}

int64_t direct_bytes(const Call& call, const Buffers& buffers, int rank, int size) {
  const auto element = static_cast<int64_t>(size_of(call.dtype));
  const int64_t bytes = call.count * element, others = size - 1;
  const int64_t part = even_part(call.count, size, rank) * element;
  switch (call.collective) {
    case Collective::barrier:
    case Collective::share:
    case Collective::recv:
      return 0;
    case Collective::all_reduce:
      return bytes - part + others * part;
    case Collective::all_reduce_tree:
      return std::ssize(buffers.nodes) * (bytes - part) + others * part;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return others * bytes;
    case Collective::all_to_all_v:
      return (elements_of(call, buffers, rank, size).in - buffers.send_counts[static_cast<size_t>(rank)]) *
             element;
    case Collective::broadcast:
    case Collective::scatter:
      return rank == call.root ? others * bytes : 0;
    case Collective::reduce:
    case Collective::gather:
    case Collective::send:
      return rank == call.root ? 0 : bytes;
  }
  return 0;
}

}  // namespace athanor::comm
