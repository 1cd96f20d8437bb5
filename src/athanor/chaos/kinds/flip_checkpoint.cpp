// flip-checkpoint: a bit flips in the newest checkpoint while no process runs.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/file.h"
#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::chaos::kinds {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kEvery = 10;  // steps: there is an older checkpoint after so many

void flip_bit_of(const std::string& folder, double where) {
  uintmax_t total = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.file_size() > 0) {
      files.push_back(entry.path());
      total += entry.file_size();
    }
  std::sort(files.begin(), files.end());
  auto bit = static_cast<uintmax_t>(where * static_cast<double>(8 * total));
  for (const fs::path& path : files) {
    const uintmax_t bits = 8 * fs::file_size(path);
    if (bit >= bits) {
      bit -= bits;
      continue;
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(bit / 8));
    const auto byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
    file.seekp(static_cast<std::streamoff>(bit / 8));
    file.put(byte);
    check(file.good(), "chaos: '{}' cannot be changed", path.string());
    return;
  }
}

class FlipCheckpoint final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "flip-checkpoint",
            .what =
                "SIGTERM to the launcher; a bit flips in a file of the newest checkpoint; then the same "
                "command again",
            .must =
                "the checkpoint is refused; the same command goes on from an older one, to the bits of the "
                "undisturbed run",
            .control = "checkpoint.keep = 1: there is no older one"};
  }
  std::vector<int> draw_ranks(Dice&, int) const override { return {}; }
  std::vector<std::string> settings() const override { return {"checkpoint.every_steps=10"}; }
  void inject(JobHandle& job, const Draw&) const override {
    job.wait([&] { return job.watch().best_step() > kEvery; }, std::numeric_limits<int64_t>::max());
    job.strike_launcher(SIGTERM);
  }
  Expectation expectation() const override {
    return {.exit_code = launch::kInterruptedExitCode, .goes_on = true, .most_redone_steps = kAnySteps};
  }
  std::vector<std::string> control_settings() const override { return {"checkpoint.keep=1"}; }
  void before_again(const std::string& run_folder, const Draw& draw) const override {
    const auto newest = newest_checkpoint(system_env(), run_folder, nullptr);
    check(newest.has_value(), "chaos: '{}': no checkpoint", run_folder);
    flip_bit_of(*newest, draw.second);
  }
};

}  // namespace

const Fault& flip_checkpoint_fault() {
  static const FlipCheckpoint fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
