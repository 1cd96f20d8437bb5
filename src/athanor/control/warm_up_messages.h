// How the ranks of a job are measured against each other before they first meet (messages.h). Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::control {

// From the agent, to all ranks when all of them wait for their first world: each measures itself now, while the others do. May
// come twice, of two agents; a round is measured once.
struct WarmUp {
  int64_t round = 0;
  bool operator==(const WarmUp&) const = default;
};

// From a rank. Negative numbers: not measured.
struct WarmedUp {
  int64_t round = 0;  // of the WarmUp
  double matrix_gflop_per_s = -1.0, memory_gb_per_s = -1.0, disk_mb_per_s = -1.0;
  std::string refusal{}, hint{};  // why the job cannot go on; "": it can
  std::string warning{};          // what is wrong, and does not keep it from going on
  bool operator==(const WarmedUp&) const = default;
};

}  // namespace athanor::control
