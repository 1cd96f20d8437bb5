// Law 1 tried on a config: the ranks of a layout, as threads of this process, beside one process on the same samples.
//
//   const VerifyRun one = run_layout(one_process(config), channels, steps);
//   const VerifyRun many = run_layout(config, channels, steps, /*ranks=*/4);
//   const LayoutDifference found = compare(many, one);
//   if (!found.bitwise) print(found.weight.value, found.weight.where);
//
// Configs are resolved and valid, and the ranks fit them (train/layout.h). Nothing is written. Thread rule: one thread
// at a time; it starts one for each rank.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/data/batch.h"
#include "athanor/data/channel.h"
#include "athanor/train/gathering.h"
#include "athanor/train/setup.h"

namespace athanor {

struct VerifyRun {
  std::vector<double> losses, grad_norms;  // of each step
  std::vector<ExpertLoad> experts = {};    // likewise, of a model that has some
  WholeTensors first_weights = {};         // as drawn, in any layout the same
  WholeTensors gradients;       // of step 1: sums over its tokens (an island's, replica.H.gradient.NAME)
  WholeTensors weights, state;  // after the last step; optimizer state by its names in checkpoints
};

// The same training without any parallelism; with two speeds one process for each island, dp and group_size being
// numbers.
Config one_process(Config config);

// What grain `grain` of step `step` is; called from the thread of any rank.
using ReadGrain = std::function<void(int64_t step, int64_t grain, Batch& batch)>;

// Trains `steps` steps from the config's seed. Error if ranks that hold the same part of a tensor hold other bits.
VerifyRun run_layout(const Config& config, std::span<const Channel> channels, int64_t steps, int ranks = 1);
// What is done differently on every rank: tests plant their faults here.
struct LayoutHooks {
  std::function<Group&(Mesh&)> data = {};              // in place of data_group(mesh)
  std::function<void(Training&, Mesh&)> lay_out = {};  // in place of Training::lay_out()
  std::function<void(Training&, TrainState&, World&)> begin = {}, end = {};  // around the steps
  std::function<void(Training&, TrainState&, World&)> after_step = {};
};
VerifyRun run_layout(const Config& config, int64_t num_channels, const ReadGrain& read, int64_t steps,
                     int ranks = 1, const LayoutHooks& hooks = {});

// A largest relative difference and where it is; 0 and "" where there is none.
struct Largest {
  double value = 0.0;
  std::string where;
  void note(double difference, const std::string& place);  // NaN counts as infinite
};

// Tensors differ by ||a - b|| / ||b||; a gradient by nothing if that is below 1e-7 of the largest gradient's norm, and
// weights with such a gradient are not compared: AdamW makes steps of full length of what is zero but for rounding.
struct LayoutDifference {
  Largest loss, grad_norm, gradient, weight;
  bool bitwise = true;  // all of them and the optimizer state
  // Choices of experts, as their counts show them, that fell otherwise in any step: from the first one on the two
  // trainings are not the same function, and no bound holds.
  int64_t routing_flips = 0;
  double worst() const;
};

LayoutDifference compare(const VerifyRun& got, const VerifyRun& expected);

}  // namespace athanor
