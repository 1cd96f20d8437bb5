// Ranks as forked processes: runs body(rank) in each and collects what became of it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/world.h"

namespace athanor {

// What a child ended with: "" for a normal end, "Error: ...", "PeerLost 1: ...", "Timeout: ...",
// "Recoverable: ...", "signal 9".
class ForkedRanks {
 public:
  ForkedRanks(int size, const std::function<void(int rank)>& body);
  ~ForkedRanks();  // kills those that are left
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  pid_t pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }
  std::string outcome(int rank);  // waits for its end
  std::vector<std::string> outcomes();

 private:
  struct Child {
    pid_t pid;
    int report;  // read end of its pipe
  };
  std::vector<Child> children_;
};

// The outcome text of an exception-throwing body, for threads as for processes.
std::string outcome_of(const std::function<void()>& body);

// Runs body on every rank, one thread each, and returns the outcomes. Each rank destroys its member of `destroy`
// at its end, if there is one.
std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<Group>>& groups,
                                           const std::function<void(Group&)>& body,
                                           std::vector<std::unique_ptr<Group>>* destroy = nullptr);
std::vector<std::string> outcomes_of_ranks(const std::vector<std::unique_ptr<World>>& worlds,
                                           const std::function<void(World&)>& body,
                                           std::vector<std::unique_ptr<World>>* destroy = nullptr);

}  // namespace athanor
