// Ranks that a test lets go wrong: what became of each, for threads as for processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/options.h"
#include "athanor/comm/shm/forked_ranks.h"
#include "athanor/comm/world.h"

namespace athanor::tests {

// Who waits in vain gives up after ten minutes: no slow machine is taken for a fault.
inline GroupOptions patient() {
  GroupOptions options;
  options.timeout_ms = 600'000;
  return options;
}

// The outcome of a child in which an expectation failed says so.
class TestRanks : public ForkedRanks {
 public:
  TestRanks(int size, const std::function<void(int rank)>& body);
};

// Runs body on every rank, one thread each, and returns the outcomes. Each rank destroys its member of `destroy`
// at its end, if there is one.
std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<Group>>& groups,
                                           const std::function<void(Group&)>& body,
                                           std::vector<std::unique_ptr<Group>>* destroy = nullptr);
std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<World>>& worlds,
                                           const std::function<void(World&)>& body,
                                           std::vector<std::unique_ptr<World>>* destroy = nullptr);

}  // namespace athanor::tests
