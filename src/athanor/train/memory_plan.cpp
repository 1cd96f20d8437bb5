#include "athanor/train/memory_plan.h"

#include <fstream>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/kernels/table.h"
#include "athanor/train/setup.h"

namespace athanor {
namespace {

// A member of a group whose collectives move nothing.
class NullGroup : public Group {
 public:
  NullGroup(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }
  Work all_reduce(void*, int64_t, Dtype, const std::string&) override { return {}; }
  Work all_reduce_tree(std::vector<TreeNode>, int64_t, float*, int64_t, const std::string&) override {
    return {};
  }
  Work all_gather(const void*, void*, int64_t, Dtype, const std::string&) override { return {}; }
  Work reduce_scatter(const void*, void*, int64_t, Dtype, const std::string&) override { return {}; }
  Work broadcast(void*, int64_t, Dtype, int, const std::string&) override { return {}; }
  void barrier(const std::string&) override {}
  void abort(const std::string&) override {}

 private:
  int rank_, size_;
  std::string name_ = "null";
};

}  // namespace

MemoryPlan plan_memory(const Config& config, int64_t num_channels, int rank, int world_size) {
  const auto queue = make_null_queue(config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
  Arena arena(*queue);
  NullGroup group(rank, world_size);
  Training training(config, num_channels, group, arena, nullptr, nullptr);
  training.allocate();

  // Two steps: the second one meets the state that the first left behind.
  TrainState state;
  const int64_t micro = config.train.micro_batch, length = config.data.seq_len;
  Batch batch;
  for (int step = 0; step < 2; ++step) {
    int64_t grain = training.parallel->grains_of_step(training.num_grains).first;
    training.runner->run(state, [&]() -> const Batch& {
      batch.num_sequences = std::min(micro, config.train.global_batch - grain * micro);
      batch.seq_len = length;
      ++grain;
      return batch;
    });
  }
  const auto [first, last] = training.parallel->grains_of_step(training.num_grains);
  return {arena.usage(), last - first};
}

void check_fits(const MemoryPlan& plan, int num_ranks, uint64_t available_bytes) {
  const double needed = static_cast<double>(plan.usage.peak_total) * num_ranks;
  if (available_bytes == 0 || needed <= static_cast<double>(available_bytes)) return;
  std::string parts;
  for (int i = 0; i < kNumCategories; ++i)
    if (const uint64_t peak = plan.usage.peak[static_cast<size_t>(i)]; peak > 0)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(static_cast<Category>(i)),
                           human_bytes(static_cast<double>(peak)));
  throw Error(fmt::format("memory: got a need of {} ({} rank{} with {}), expected at most the {} available",
                          human_bytes(needed), num_ranks, num_ranks == 1 ? "" : "s", parts,
                          human_bytes(static_cast<double>(available_bytes))),
              "train.micro_batch = 1 and parallel.recompute = \"full\" need the least activations");
}

uint64_t available_memory_bytes() {
  std::ifstream in("/proc/meminfo");
  uint64_t kib = 0;
  for (std::string line; std::getline(in, line);)
    for (const std::string key : {"MemAvailable:", "SwapFree:"})
      if (line.starts_with(key)) kib += std::stoull(line.substr(key.size()));
  return kib * 1024;
}

}  // namespace athanor
