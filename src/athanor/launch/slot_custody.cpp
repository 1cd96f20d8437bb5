#include "athanor/launch/slot_custody.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/control/messages.h"

namespace athanor::launch {

void SlotCustody::begun(int64_t generation, std::vector<int> workers) {
  generation_ = generation;
  holders_ = std::move(workers);
}

std::vector<std::vector<int>> SlotCustody::hand_over(const std::vector<int>& members) {
  std::vector<std::vector<int>> given(members.size());
  for (size_t rank = 0; rank < holders_.size(); ++rank) {
    int& holder = holders_[rank];
    if (std::find(members.begin(), members.end(), holder) != members.end()) continue;
    size_t to = rank < members.size() ? rank : 0;
    while (to < given.size() && given[to].size() >= static_cast<size_t>(kMostLeft)) ++to;
    check(to < given.size(), "launch: {} ranks cannot take the slots of {}", members.size(), holders_.size());
    given[to].push_back(static_cast<int>(rank));
    holder = members[to];
  }
  return given;
}

}  // namespace athanor::launch
