// The units of a LoadBalance whose ranks compute their micro-batches alone: {0, 1, ...}.
#pragma once

#include <numeric>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::tests {

inline std::vector<int> every_rank_alone(const Group& group) {
  std::vector<int> units(static_cast<size_t>(group.size()));
  std::iota(units.begin(), units.end(), 0);
  return units;
}

}  // namespace athanor::tests
