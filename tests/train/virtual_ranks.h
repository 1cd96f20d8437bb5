// What definitions in one process are made of: gradients of some micro-batches of a step in one model, and what a run in
// a layout is held against.
#pragma once

#include <cmath>

#include "athanor/comm/tree.h"
#include "athanor/verify/verify.h"
#include "train/role_of.h"
#include "train/small_training.h"

namespace athanor::tests {

struct Accumulated {
  double loss = 0.0, tokens = 0.0;
};

// The losses of a micro-batch of `step`, after its backward pass. `index`: its number among those of the rank.
inline Accumulated compute_micro_batch_of(const Config& config, const Model& model, Arena& arena,
                                          int64_t step, int64_t micro_batch, int64_t index,
                                          double loss_scale = 1.0) {
  const Batch batch = make_batch(config, step, micro_batch);
  Tape tape({.seed = config.train.seed,
             .step = static_cast<uint64_t>(step),
             .micro_batch = index,
             .first_sequence = batch.first_index,
             .num_sequences = batch.num_sequences,
             .seq_len = batch.seq_len,
             .record = true,
             .dropout = true,
             .loss_scale = static_cast<float>(loss_scale)});
  const auto ids = [&](const std::vector<int32_t>& of) {
    return to_tensor(arena, of, batch.num_sequences, batch.seq_len);
  };
  const Var loss = model.loss(tape, {.ids = ids(batch.tokens), .targets = ids(batch.targets)}, {});
  Accumulated sums{.loss = 0.0, .tokens = static_cast<double>(batch.targets.size())};
  for (const float value : to_floats(loss.value)) sums.loss += double{value};
  tape.backward(loss);
  return sums;
}

// Of a training of one rank: the gradients of these micro-batches of `step`, which begin at zero. The caller ends the step.
inline Accumulated accumulate(Training& training, const Config& config, int64_t step,
                              const LeafRange& micro_batches, double loss_scale = 1.0) {
  Accumulated sums;
  parallel_of(training).begin_step({.num_micro_batches = micro_batches.second - micro_batches.first});
  for (int64_t micro_batch = micro_batches.first; micro_batch < micro_batches.second; ++micro_batch) {
    const Accumulated done =
        compute_micro_batch_of(config, *training.model, training.arena, step, micro_batch,
                               micro_batch - micro_batches.first, loss_scale);
    sums.loss += done.loss;
    sums.tokens += done.tokens;
    parallel_of(training).end_micro_batch();
  }
  return sums;
}

// Experts lie on ep neighbours, whose tokens they see: of so many ranks n / ep sum their gradients.
inline std::vector<std::vector<float>> of_copies(const std::vector<std::vector<float>>& x, int64_t ep) {
  std::vector<std::vector<float>> copies;
  for (size_t rank = 0; rank < x.size(); ++rank) {
    if (rank % static_cast<size_t>(ep) == 0) {
      copies.push_back(x[rank]);
      continue;
    }
    for (size_t i = 0; i < x[rank].size(); ++i) copies.back()[i] += x[rank][i];
  }
  return copies;
}

inline LrSchedule schedule_of(const Config& config) {
  return {.decay = config.schedule.decay,
          .lr = config.optimizer.lr,
          .steps = config.train.steps,
          .warmup_steps = config.schedule.warmup_steps,
          .warmup_init_ratio = config.schedule.warmup_init_ratio,
          .min_lr_ratio = config.schedule.min_lr_ratio,
          .decay_fraction = config.schedule.wsd_decay_fraction,
          .power = config.schedule.power};
}

// "model.NAME" -> values, as VerifyRun has them.
inline WholeTensors weights_of(const Model& model) {
  WholeTensors weights;
  for (const auto& param : model.params()) weights["model." + param->name()] = to_floats(param->master());
  return weights;
}

// ||got - expected|| / ||expected|| over all that is expected.
inline double weights_gap(const WholeTensors& got, const WholeTensors& expected) {
  double gap = 0.0, norm = 0.0;
  for (const auto& [name, values] : expected)
    for (size_t i = 0; i < values.size(); ++i) {
      gap += std::pow(double{got.at(name).at(i)} - double{values[i]}, 2);
      norm += std::pow(double{values[i]}, 2);
    }
  return std::sqrt(gap / norm);
}

// What a definition computes. It adds losses and norms up in another order than ranks do.
struct DefinedRun {
  std::vector<double> losses, grad_norms, loss_scales;
  WholeTensors weights;
};

struct Tolerance {  // 0: weights to the bit, losses and norms within 1e-12
  double losses = 0.0, norms = 0.0, weights = 0.0;
};

inline void expect_defined(const VerifyRun& got, const DefinedRun& expected, const Tolerance& within,
                           const std::string& what) {
  ASSERT_EQ(got.losses.size(), expected.losses.size()) << what;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const double loss = expected.losses[i], norm = expected.grad_norms[i];
    EXPECT_NEAR(got.losses[i], loss, std::max(1e-12, within.losses * loss)) << what << ", step " << i + 1;
    EXPECT_EQ(std::isfinite(got.grad_norms[i]), std::isfinite(norm)) << what << ", step " << i + 1;
    if (!std::isfinite(norm)) continue;
    EXPECT_NEAR(got.grad_norms[i], norm, std::max(within.norms, 1e-12) * norm) << what << ", step " << i + 1;
  }
  EXPECT_LE(weights_gap(got.weights, expected.weights), within.weights) << what;
}

}  // namespace athanor::tests
