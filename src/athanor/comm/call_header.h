// A call as the fixed number of bytes that ranks without common memory send each other before data moves.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/comm/call.h"

namespace athanor {

struct CallHeader {
  static constexpr uint64_t kNone = ~uint64_t{0}, kLeft = ~uint64_t{0};
  uint64_t group = kNone;  // the group's id
  uint64_t sequence = 0;   // of the call in the group; of a message between two ranks: in that direction
  uint64_t what = 0;       // collective, dtype, root; kLeft: no call, the rank has left the group
  int64_t count = 0, num_leaves = 0;
  uint64_t name_hash = 0;
  int64_t extra = 0;  // of the sender alone, not compared: how many nodes it brings to all_reduce_tree
  char name[200] = {};

  CallHeader() = default;
  CallHeader(uint64_t group_id, uint64_t number, const Call& call, int64_t own);
  bool same_call(const CallHeader& other) const;
  bool left() const { return what == kLeft; }
  Call call() const;  // with its name cut
};
static_assert(sizeof(CallHeader) == 256);

}  // namespace athanor
