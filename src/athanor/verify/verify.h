// Verifies a layout against law 1: runs its ranks as threads of this process, and compares them with one process on the
// same samples.
//
//   const VerifyRun one = run_layout(one_process(config), channels, steps);
//   const VerifyRun many = run_layout(config, channels, steps, /*ranks=*/4);
//   const LayoutDifference found = compare(many, one);
//   if (!found.bitwise) print(found.weight.value, found.weight.where);
//
// Configs must be resolved and valid, and fit the ranks (layout/layout.h). Nothing is written to disk. Errors:
// those of training. Thread rule: one caller at a time; it starts a thread for each rank.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/data/batch.h"
#include "athanor/data/channel.h"
#include "athanor/engine/setup.h"
#include "athanor/engine/unshard.h"
#include "athanor/layout/one_process.h"

namespace athanor::verify {

struct VerifyRun {
  std::vector<double> losses, grad_norms;  // of each step
  std::vector<ExpertLoad> experts = {};    // of each step; empty for a model without experts
  WholeTensors first_weights = {};         // initial values, the same in every layout
  WholeTensors gradients;       // of step 1: sums over tokens (of replica group H: replica.H.gradient.NAME)
  WholeTensors weights, state;  // after the last step; optimizer state under its checkpoint names
};

// Fills `batch` with micro-batch `micro_batch` of step `step`. Called from the threads of all ranks.
using ReadMicroBatch = std::function<void(int64_t step, int64_t micro_batch, Batch& batch)>;

// A part of a training with one layout, up to and with `last_step`.
struct VerifySegment {
  Config config;
  int ranks = 1;
  int64_t last_step = 1;
  // A failure of its group ends it, and the next one goes on from the step that all ranks have done.
  bool may_break = false;
};

// Trains from the first config's seed, with one layout after the other: each segment starts from a snapshot of the one
// before (checkpoint/snapshot.h), in the same process. Configs differ in their layouts only. Error if two ranks hold
// different bits of the same element.
VerifyRun run_layouts(std::vector<VerifySegment> segments, std::span<const Channel> channels);
// With one layout, `steps` steps.
VerifyRun run_layout(const Config& config, std::span<const Channel> channels, int64_t steps, int ranks = 1);
// Replacements and additions, run on every rank: tests inject faults here.
struct LayoutHooks {
  std::function<void(Layout&)> layout = {};      // changes what is built
  std::function<void(Groups&)> groups = {};      // puts other groups in the place of some
  const Sharding* sharding = nullptr;            // TrainingOptions::sharding
  std::function<void(Training&)> declared = {};  // before anything is allocated
  std::function<void(Training&, TrainState&, World&)> begin = {}, end = {};  // around the steps
  std::function<void(Training&, TrainState&, World&)> after_step = {};
};
VerifyRun run_layout(const Config& config, int64_t num_channels, const ReadMicroBatch& read, int64_t steps,
                     int ranks = 1, const LayoutHooks& hooks = {});
VerifyRun run_layouts(std::vector<VerifySegment> segments, int64_t num_channels, const ReadMicroBatch& read,
                      const LayoutHooks& hooks = {});

// The largest relative difference and its place; 0 and "" where there is none.
struct Largest {
  double value = 0.0;
  std::string where;
  void note(double difference, const std::string& place);  // NaN counts as infinite
};

// The difference of tensors is ||a - b|| / ||b||. A gradient whose norm is below 1e-7 of the largest gradient's norm
// counts as zero, and its weights are not compared: AdamW turns rounding noise into steps of full length.
struct LayoutDifference {
  Largest loss, grad_norm, gradient, weight;
  bool bitwise = true;  // losses, norms, gradients, weights and optimizer state have equal bits
  // Tokens that were routed to another expert, estimated from the counts of all steps. After the first one the two
  // trainings compute different functions, and no bound on the differences holds.
  int64_t routing_flips = 0;
  double worst() const;
};

LayoutDifference compare(const VerifyRun& got, const VerifyRun& expected);

}  // namespace athanor::verify
