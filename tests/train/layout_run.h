// A small training (small_training.h) in a layout, beside one process.
#pragma once

#include "athanor/layout/enumerate.h"
#include "athanor/verify/verify.h"
#include "train/small_training.h"

namespace athanor::tests {

// Of a layout that adds in another order than one process, in f32.
inline constexpr double kTolerance = 1e-5;

// Micro-batches of 22, 22 and 11 tokens: uneven parts for two, three and four ranks, of micro-batches and of sequences.
inline Config uneven(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "sgd" ? 1e-1 : 3e-4;
  // A gradient that is little but rounding would move its element by a whole rate, wherever the bits fall.
  config.optimizer.eps = 1e-4;
  config.data.seq_len = 11;
  config.train.steps = 10;
  config.train.global_batch_size = 5;
  config.train.micro_batch_size = 2;
  return config;
}

using verify::run_layout;  // the same with a reader of batches, or of channels

// The ranks that the axes of the config make up; dp too must be set.
inline int ranks_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return static_cast<int>(std::max<int64_t>(1, p.dp) * p.pp * p.cp * p.tp + config.parameter_server.servers);
}

// "pp 2 zb-v dp 2 ...", for messages and names.
inline std::string text_of(const Config& config) {
  return make_layout(config, {.world_size = ranks_of(config)}).text();
}

// `steps`: the first of the config's; 0: all.
inline VerifyRun run_layout(const Config& config, const LayoutHooks& hooks = {}, int64_t steps = 0) {
  return run_layout(
      config, 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) { batch = make_batch(config, step, micro_batch); },
      steps > 0 ? steps : config.train.steps, ranks_of(config), hooks);
}

// What ZeRO 1 and 2 gather at the end of a step has arrived: all bytes of the step are counted. Stage 3 has nothing under way.
inline void finish_gathers(const Training& training, const Config& config) {
  if (config.parallel.zero_stage == 3) return;
  for (const auto& param : training.model->params()) static_cast<void>(param->value());
}

// Whether a planted fault shows: as a difference, or because ranks no longer agree.
inline bool is_caught(const Config& config, const VerifyRun& one, const LayoutHooks& hooks, double least) {
  try {
    return compare(run_layout(config, hooks), one).worst() > least;
  } catch (const Failure&) {  // of the rank that noticed, or of those that it left alone
    return true;
  }
}

}  // namespace athanor::tests
