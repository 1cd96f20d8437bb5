// The cores of this machine that the process may run on, and which of them each thread of each rank gets.
//
//   const Placement place = place_rank(usable_cores(), {.ranks = 2, .rank = 0, .threads = 4});
//   ThreadPool pool(4, [&](int thread) { bind_this_thread(place.thread(thread)); });
//   const BoundThread main(place.thread(0));   // until it goes out of scope
//
// The ranks of a host share its cores without overlap, one NUMA node after the other, and a rank stays on one node if
// it fits. Every thread has a core of its own before two threads share one as hyperthreads. All ranks compute the same
// placement, because they see the same cores. Thread rule: free functions; binding affects the calling thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct Core {
  int node = 0;                 // NUMA node, in the order of the machine
  std::vector<int> processors;  // the system's numbers of its hyperthreads; at least one
  bool operator==(const Core&) const = default;
};

// Node by node. Empty if the machine's topology cannot be read.
std::vector<Core> usable_cores();
// The cores of a synthetic machine in hwloc's notation, "numa:2 core:4 pu:2"; only the processors in `allowed` unless
// it is empty. Error for a description that hwloc does not take.
std::vector<Core> synthetic_cores(const std::string& description, std::span<const int> allowed = {});

struct PlacementRequest {
  int ranks = 1;  // of this host
  int rank = 0;
  int threads = 1;         // of each rank
  double cpu_quota = 0.0;  // of the host's ranks (cpu_limits.h); 0: none
};

// Where the threads of one rank run. A rank is not pinned, with a reason, if
// - there are more threads than processors;
// - there are so few threads that each rank could have one more: other jobs may be meant to run beside (use taskset);
// - there is a CPU quota: other processes run on the same processors, and which processors are idle changes.
struct Placement {
  std::vector<int> processors;  // of the rank; empty: not pinned
  std::vector<int> of_thread;   // one for each thread, the main one first
  std::string reason;

  bool pinned() const { return !processors.empty(); }
  std::span<const int> thread(int thread) const;  // its processor, as one number or none
  std::string text() const;                       // "pinned to cores 0-3", or why not
};

Placement place_rank(std::span<const Core> cores, const PlacementRequest& request);

// From now on this thread, and each thread that it starts, runs on these processors only; an empty span changes
// nothing. Returns why the system refuses, or "".
std::string bind_this_thread(std::span<const int> processors);

// The same until the end of the scope. The scope must end on the thread that began it.
class BoundThread {
 public:
  explicit BoundThread(std::span<const int> processors);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;
  const std::string& refusal() const { return refusal_; }

 private:
  std::vector<int> before_;  // empty: nothing was changed
  std::string refusal_;
};

// 0,1,2,5 -> "0-2,5"
std::string number_ranges(std::vector<int> numbers);

}  // namespace athanor::base
