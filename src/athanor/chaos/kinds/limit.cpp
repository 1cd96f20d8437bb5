// memory, descriptors: one rank gets no more of them, and has to take its place in a new world.
#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"

namespace athanor::chaos::kinds {
namespace {

// The first rank that is struck is limited; the second one dies, so that the first needs a new world.
class Limit : public Fault {
 public:
  Limit(__rlimit_resource resource, rlim_t least) : resource_(resource), least_(least) {}
  int least_ranks() const override { return 2; }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return dice.choose(2, num_ranks); }
  void inject(JobHandle& job, const Draw& draw) const override {
    const rlimit least{.rlim_cur = least_, .rlim_max = least_};
    if (prlimit(job.pid_of(draw.ranks[0]), resource_, &least, nullptr) != 0)
      job.note("the limit could not be set");
    job.strike(draw.ranks, 0);
    job.signal({draw.ranks[1]}, SIGKILL);
  }
  Expectation expectation() const override { return {.most_redone_steps = 1, .survivors = true}; }

 protected:
  static FaultText text_of(const char* name, const char* what) {
    return {
        .name = name,
        .what = what,
        .must =
            "the limited rank is started again, too; the job recovers with the bits of the undisturbed run",
        .control = "launch.max_restarts = 0"};
  }

 private:
  __rlimit_resource resource_;
  rlim_t least_;
};

class Memory final : public Limit {
 public:
  Memory() : Limit(RLIMIT_AS, 1) {}
  FaultText text() const override {
    return text_of("memory",
                   "One rank gets no more memory from the system (RLIMIT_AS), and SIGKILL to another one");
  }
};

class Descriptors final : public Limit {
 public:
  Descriptors() : Limit(RLIMIT_NOFILE, 4) {}
  FaultText text() const override {
    return text_of("descriptors",
                   "One rank may open no more files (RLIMIT_NOFILE), and SIGKILL to another one");
  }
};

}  // namespace

const Fault& memory_fault() {
  static const Memory fault;
  return fault;
}

const Fault& descriptors_fault() {
  static const Descriptors fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
