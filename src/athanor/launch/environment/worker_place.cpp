#include "athanor/launch/environment/worker_place.h"

#include <fmt/core.h>

#include <algorithm>

namespace athanor::launch::environment {

std::vector<std::string> place_into(const std::vector<std::string>& around, const WorkerPlace& place) {
  const auto number = [](int value) { return value < 0 ? "" : std::to_string(value); };
  const std::pair<const char*, std::string> own[] = {
      {"RANK", number(place.rank)},
      {"LOCAL_RANK", number(place.local_rank)},
      {"WORLD_SIZE", number(place.world_size)},
      {"LOCAL_WORLD_SIZE", number(place.local_world_size)},
      {"ATHANOR_CONTROL", place.control},
      {"ATHANOR_JOB", place.job},
      {"ATHANOR_WORKER", number(place.worker)},
      {"ATHANOR_SHM_FD", number(place.segment_fd)},
      {"ATHANOR_SNAPSHOT_FD", number(place.snapshot_fd)},
  };
  std::vector<std::string> environment;
  for (const std::string& entry : around)
    if (std::none_of(std::begin(own), std::end(own), [&](const auto& variable) {
          return entry.starts_with(std::string(variable.first) + "=");
        }))
      environment.push_back(entry);
  for (const auto& [name, value] : own)
    if (!value.empty()) environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

}  // namespace athanor::launch::environment
