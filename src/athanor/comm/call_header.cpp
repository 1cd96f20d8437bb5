#include "athanor/comm/call_header.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/hash.h"

namespace athanor::comm {

CallHeader::CallHeader(uint64_t group_id, uint64_t number, const Call& call, int64_t own, int of_generation)
    : group(group_id),
      sequence(number),
      what(static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.dtype) << 8 |
           static_cast<uint64_t>(call.root + 1) << 16),
      count(call.count),
      num_leaves(call.num_leaves),
      name_hash(hash64(call.name)),
      extra(own),
      generation(of_generation) {
  std::memcpy(name, call.name.data(), std::min(call.name.size(), sizeof(name) - 1));
}

bool CallHeader::same_call(const CallHeader& other) const {
  return group == other.group && sequence == other.sequence && what == other.what && count == other.count &&
         num_leaves == other.num_leaves && name_hash == other.name_hash;
}

Call CallHeader::call() const {
  Call call;
  call.collective = static_cast<Collective>(what & 255);
  call.dtype = static_cast<Dtype>((what >> 8) & 255);
  call.root = static_cast<int32_t>(what >> 16) - 1;
  call.count = count;
  call.num_leaves = num_leaves;
  call.name.assign(name, strnlen(name, sizeof(name) - 1));
  return call;
}

}  // namespace athanor::comm
