// What a rank's process is told about its place, as environment variables (launch/environment.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::environment {

struct WorkerPlace {
  int rank = 0, world_size = 1;              // of the job
  int local_rank = 0, local_world_size = 1;  // of this host
  std::string control, job;                  // "": no agent
  int worker = -1;
  int segment_fd = -1, snapshot_fd = -1;  // -1: none
};

// `around`, NAME=value, with this place instead of any other.
std::vector<std::string> place_into(const std::vector<std::string>& around, const WorkerPlace& place);

}  // namespace athanor::launch::environment
