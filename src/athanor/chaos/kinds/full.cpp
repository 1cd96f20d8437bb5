// full: the disk of the run is full while a checkpoint is due, and has room again later.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/small_disk.h"

namespace athanor::chaos::kinds {
namespace {

constexpr uint64_t kDiskBytes = uint64_t{256} << 20;
constexpr uint64_t kLeftBytes = uint64_t{256} << 10;  // room for lines, but for no checkpoint
constexpr int64_t kPatienceNs = 500'000'000;

class Full final : public Fault {
 public:
  FaultText text() const override {
    return {
        .name = "full",
        .what =
            "The disk of the run has room for lines but for no checkpoint, until one could not be written",
        .must =
            "the training goes on, says it and saves again later; nothing is taken for a failure, no process "
            "ends, no line is lost, and the bits are those of the undisturbed run",
        .control = "the disk stays full"};
  }
  std::string unavailable() const override {
    const std::string why = SmallDisk::refused();
    return why.empty() ? "" : "needs a file system of its own: " + why;
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  std::vector<std::string> settings() const override { return {"checkpoint.every_steps=5"}; }
  void prepare(JobCommand& command) const override {
    command.runs = join_path(command.runs, "disk");
    command.disk = std::make_shared<SmallDisk>(command.runs, kDiskBytes);
  }
  void inject(JobHandle& job, const Draw& draw) const override {
    job.strike({}, 0);
    // A save that was under way succeeds and removes an old checkpoint, in whose room the next ones would fit.
    job.wait(
        [&] {
          job.disk().fill(kLeftBytes);
          const auto& events = job.watch().events();
          return std::any_of(events.begin(), events.end(), [](const SeenEvent& seen) {
            return seen.kind() == "checkpoint" &&
                   text_in(seen.event, "cause").find("could not") != std::string::npos;
          });
        },
        now_ns() + kPatienceNs);
    if (!draw.is_control) job.disk().free();
  }
  Expectation expectation() const override {
    return {.no_failure = true, .named_by = "checkpoint", .named_as = "could not be saved"};
  }
  std::vector<std::string> control_settings() const override { return {}; }
};

}  // namespace

const Fault& full_fault() {
  static const Full fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
