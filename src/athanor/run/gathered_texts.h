// A text of each rank, on all ranks.
//
//   const std::vector<std::string> all = gather_texts(group, mine, "guards");      // in the order of the ranks
//
// Collective. Errors: those of the group. Thread rule: one thread per rank.
#pragma once

#include <string>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::run {

std::vector<std::string> gather_texts(Group& group, const std::string& mine, const std::string& name);

}  // namespace athanor::run
