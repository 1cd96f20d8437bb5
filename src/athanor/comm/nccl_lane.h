// The messages of one direction between two ranks of an NcclGroup: a communicator of the two, whose rank 0 sends, and
// the messages under way, one after the other.
//
// Thread rule: inner to the group.
#pragma once

#include "athanor/comm/nccl_group.h"

namespace athanor {

struct NcclGroup::Lane {
  Lane(NcclGroup& group, int peer, bool sends);

  NcclLink link;
  NcclLink::Id id{};
  Work id_under_way;  // from the sender, by the host's group
  CallQueue queue;
};

}  // namespace athanor
