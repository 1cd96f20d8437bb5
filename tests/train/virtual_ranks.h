// What definitions in one process are made of: gradients of some micro-batches of a step in one model, and trainings of
// several ranks in links, each from the checkpoint of the one before.
#pragma once

#include <filesystem>
#include <functional>

#include "athanor/comm/tree.h"
#include "athanor/train/engine/replica_groups.h"
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
  const Var loss = model.loss(tape, ids(batch.tokens), ids(batch.targets), {});
  Accumulated sums{.loss = 0.0, .tokens = static_cast<double>(batch.targets.size())};
  for (const float value : to_floats(loss.value)) sums.loss += double{value};
  tape.backward(loss);
  return sums;
}

// Of a training of one rank: the gradients of these micro-batches of `step`, which begin at zero. The caller ends the step.
inline Accumulated accumulate(Training& training, const Config& config, int64_t step,
                              const LeafRange& micro_batches, double loss_scale = 1.0) {
  Accumulated sums;
  training.parallel->begin_step({.num_micro_batches = micro_batches.second - micro_batches.first});
  for (int64_t micro_batch = micro_batches.first; micro_batch < micro_batches.second; ++micro_batch) {
    const Accumulated done =
        compute_micro_batch_of(config, *training.model, training.arena, step, micro_batch,
                               micro_batch - micro_batches.first, loss_scale);
    sums.loss += done.loss;
    sums.tokens += done.tokens;
    training.parallel->end_micro_batch();
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
          .min_lr_ratio = config.schedule.min_lr_ratio,
          .decay_fraction = config.schedule.wsd_decay_fraction};
}

struct Link {
  int ranks;
  int64_t steps;
  int zero = 0;
};

// Of rank 0, the steps of all links; a checkpoint FOLDER/STEP after each. at_end is called on every rank of each link.
inline std::vector<StepResult> train_chain(Config config, const std::vector<Link>& chain,
                                           const std::string& folder,
                                           const std::function<void(Training&, Group& all)>& at_end = {}) {
  std::filesystem::remove_all(folder);
  std::vector<StepResult> results;
  TrainState state = first_state(config);
  for (const Link& link : chain) {
    const TrainState before = state;
    config.parallel.zero_stage = link.zero;
    run_ranks(make_thread_worlds(link.ranks), [&](World& world) {
      Engine engine;
      Training training(config, 2, world.all(), engine.arena, nullptr, nullptr);
      Mesh mesh({.dp = link.ranks}, world);
      training.lay_out(mesh);
      training.allocate();
      TrainState mine = before;
      if (mine.step == 0) {
        training.model->initialize(config.train.seed);
      } else {
        training.load(Checkpoint::open(system_env(), folder + "/" + std::to_string(mine.step)));
      }
      training.parallel->publish();
      Batch batch;
      for (int64_t i = 0; i < link.steps; ++i) {
        const std::vector<int64_t> micro_batches =
            training.parallel->micro_batches_of_step(training.num_micro_batches);
        auto micro_batch = micro_batches.begin();
        const int64_t step = mine.step + 1;
        const StepResult result = training.runner->run(mine, [&]() -> const Batch& {
          batch = make_batch(config, step, *micro_batch++);
          return batch;
        });
        if (world.rank() == 0) results.push_back(result);
      }
      if (at_end) at_end(training, world.all());
      write_checkpoint_at(
          system_env(), world.all(), folder + "/" + std::to_string(mine.step),
          {.step = mine.step, .state = mine.to_json(), .tensors = training.tensors(), .files = {}});
      if (world.rank() == 0) state = mine;
    });
  }
  return results;
}

}  // namespace athanor::tests
