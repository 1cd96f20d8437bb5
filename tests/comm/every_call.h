// Every call of a Group against what it must give, computed serially: for all transports alike.
#pragma once

#include <string>

#include "athanor/comm/group.h"

namespace athanor::tests {

// By every rank of the group. Returns what is wrong, or "".
// `inner_size`: the sums that a group of several levels forms are those of its inner groups of that many ranks, added up;
// 1: all ranks in one order.
std::string try_every_call(Group& group, int inner_size = 1);

}  // namespace athanor::tests
