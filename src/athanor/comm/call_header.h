// A call as a message header of 256 bytes, which ranks without shared memory send each other before data moves.
//
//   const CallHeader header(group_id, sequence, call, /*own=*/0, /*of_generation=*/0);
//   if (!header.same_call(received)) ...               // mismatch: received.call().text() for the message
//
// Thread rule: a plain value.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/comm/call.h"

namespace athanor::comm {

struct CallHeader {
  static constexpr uint64_t kNone = ~uint64_t{0}, kLeft = ~uint64_t{0};
  uint64_t group = kNone;  // the group's id
  uint64_t sequence = 0;   // number of the call in the group; of a point-to-point message: in its direction
  uint64_t what = 0;       // collective, dtype, root; kLeft: no call, the rank has left the group
  int64_t count = 0, num_leaves = 0;
  uint64_t name_hash = 0;
  int64_t extra = 0;       // not compared; all_reduce_tree: the number of the sender's nodes
  int32_t generation = 0;  // of the sender's world
  char name[196] = {};

  CallHeader() = default;
  CallHeader(uint64_t group_id, uint64_t number, const Call& call, int64_t own, int of_generation);
  bool same_call(const CallHeader& other) const;
  bool left() const { return what == kLeft; }
  Call call() const;  // with a truncated name
};
static_assert(sizeof(CallHeader) == 256);

}  // namespace athanor::comm
