// disk-error, disk-short, disk-hang: writes and fsyncs of checkpoints go wrong for a while.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/preload.h"

namespace athanor::chaos::kinds {
namespace {

constexpr const char* kModule = "athanor_disk.so";  // apps/preloaded/bad_disk.cpp
enum class Way : int64_t { good, fails, writes_short, loses, hangs };

constexpr int64_t kPatienceNs = 2'000'000'000;
constexpr int64_t kStepsMeanwhile = 5;

std::string disk_file(const JobHandle& job) {
  return job.command().run_folder() + ".disk";
}

void make(const JobHandle& job, Way way) {
  std::fstream file(disk_file(job), std::ios::in | std::ios::out | std::ios::binary);
  file.write(reinterpret_cast<const char*>(&way), sizeof(way));
}

int64_t num_calls(const JobHandle& job) {
  int64_t values[2] = {};
  std::ifstream(disk_file(job), std::ios::binary).read(reinterpret_cast<char*>(values), sizeof(values));
  return values[1];
}

class BadDisk : public Fault {
 public:
  std::string unavailable() const override { return preload_unavailable(kModule); }
  double latest() const override { return 0.6; }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  std::vector<std::string> settings() const override {
    return {"checkpoint.every_steps=5", "checkpoint.background=on"};
  }
  void prepare(JobCommand& command) const override {
    const std::string path = command.run_folder() + ".disk";
    system_env().write_atomically(path, std::string(2 * sizeof(int64_t), '\0'));
    command.environment.push_back("ATHANOR_DISK_FILE=" + path);
    command.environment.push_back("ATHANOR_DISK_FOLDER=" + join_path(command.run_folder(), "checkpoints"));
    preload(command, kModule);
  }
  std::vector<std::string> control_settings() const override { return {}; }

 protected:
  // Until a call has met it; false: none has.
  static bool wait_for_call(JobHandle& job) {
    const int64_t before = num_calls(job);
    if (job.wait([&] { return num_calls(job) > before; }, now_ns() + kPatienceNs)) return true;
    job.note("no checkpoint was written while the disk was bad");
    return false;
  }
};

class DiskError final : public BadDisk {
 public:
  FaultText text() const override {
    return {.name = "disk-error",
            .what = "Each write and fsync of a checkpoint fails with EIO, until one could not be written",
            .must =
                "the training goes on, says it and saves again later; nothing is taken for a failure, no "
                "process ends, and the bits are those of the undisturbed run",
            .control = "the disk stays bad"};
  }
  void inject(JobHandle& job, const Draw& draw) const override {
    job.strike({}, 0);
    make(job, Way::fails);
    job.wait(
        [&] {
          const auto& events = job.watch().events();
          return std::any_of(events.begin(), events.end(), [](const SeenEvent& seen) {
            return seen.kind() == "checkpoint" &&
                   text_in(seen.event, "cause").find("could not") != std::string::npos;
          });
        },
        now_ns() + kPatienceNs);
    if (!draw.is_control) make(job, Way::good);
  }
  Expectation expectation() const override {
    return {.no_failure = true, .named_by = "checkpoint", .named_as = "could not be saved"};
  }
};

class DiskShort final : public BadDisk {
 public:
  FaultText text() const override {
    return {.name = "disk-short",
            .what = "Each write of a checkpoint writes half of what it is given, and says so",
            .must =
                "checkpoints are whole, nothing is taken for a failure, and the bits are those of the "
                "undisturbed run",
            .control = "the disk says that it has written all"};
  }
  void inject(JobHandle& job, const Draw& draw) const override {
    job.strike({}, 0);
    make(job, draw.is_control ? Way::loses : Way::writes_short);
    wait_for_call(job);
  }
  Expectation expectation() const override { return {.no_failure = true}; }
};

class DiskHang final : public BadDisk {
 public:
  FaultText text() const override {
    return {.name = "disk-hang",
            .what = "An fsync of a checkpoint hangs until five more steps are done, two seconds at most",
            .must =
                "the steps go on meanwhile; nothing is taken for a failure, no process ends, and the bits "
                "are those of the undisturbed run",
            .control = "checkpoint.background = \"off\": the ranks write, and wait"};
  }
  std::vector<std::string> control_settings() const override { return {"checkpoint.background=off"}; }
  void inject(JobHandle& job, const Draw&) const override {
    job.strike({}, 0);
    make(job, Way::hangs);
    if (wait_for_call(job)) {
      const int64_t before = job.watch().best_step();
      const auto goes_on = [&] { return job.watch().best_step() >= before + kStepsMeanwhile; };
      if (!job.wait(goes_on, now_ns() + kPatienceNs)) job.note("no step was done while an fsync hung");
    }
    make(job, Way::good);
  }
  Expectation expectation() const override { return {.no_failure = true}; }
};

}  // namespace

const Fault& disk_error_fault() {
  static const DiskError fault;
  return fault;
}

const Fault& disk_short_fault() {
  static const DiskShort fault;
  return fault;
}

const Fault& disk_hang_fault() {
  static const DiskHang fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
