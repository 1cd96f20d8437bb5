// The point-to-point messages of one direction between two ranks of an NcclGroup: a communicator of the two ranks (its
// rank 0 sends) with a stream, and a queue of the messages, which run one after the other.
//
// Thread rule: internal to the group.
#pragma once

#include "athanor/comm/nccl/nccl_group.h"

namespace athanor::comm::nccl {

struct NcclGroup::Lane {
  Lane(NcclGroup& group, int peer, bool sends);

  NcclLink link;
  NcclLink::Id id{};
  Work id_under_way;  // the sender sends the id by the host group
  CallQueue queue;
};

}  // namespace athanor::comm::nccl
