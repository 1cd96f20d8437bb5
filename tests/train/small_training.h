// A model of two blocks and its training, small enough to be run in every layout, and what of a run must keep its bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "athanor/comm/shm/thread.h"
#include "athanor/config/presets.h"
#include "athanor/engine/setup.h"
#include "support/engine.h"
#include "train/role_of.h"

namespace athanor::tests {

// Experts of both styles: "moe" is Mixtral's, "moe_bias" DeepSeek-V3's with a dense first block.
inline void add_experts(ModelConfig& model, const std::string& style) {
  model.model_type = "moe";
  model.num_experts = 5;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 20;
  model.router_z_loss_coef = 0.001;
  if (style == "moe") {
    model.router_aux_loss_coef = 0.05;
    return;
  }
  model.first_k_dense_replace = model.n_shared_experts = 1;
  model.scoring_func = "sigmoid";
  model.routed_scaling_factor = 1.5;
  model.router_bias_update_rate = 0.02;
}

inline Config tiny(const std::string& family) {
  Config config;
  config.model.model_type = family;
  config.model.num_hidden_layers = 2;
  config.model.hidden_size = 24;
  config.model.num_attention_heads = 4;
  const bool has_biases = family == "gpt2" || family == "bert";
  config.model.num_key_value_heads = has_biases ? 4 : 2;
  config.model.vocab_size = 41;
  config.model.max_position_embeddings = 16;
  config.model.tie_word_embeddings = config.model.bias = has_biases;
  if (config.model.is_encoder()) {
    config.model.attention_pattern = "full";
    config.model.type_vocab_size = config.model.position_offset = 2;
  }
  if (family.starts_with("moe")) add_experts(config.model, family);
  config.model = complete_model(config.model, 41, 12);
  config.data.seq_len = 12;
  config.train.global_batch_size = 10;
  config.train.micro_batch_size = 2;  // five micro-batches: uneven for two, three and four ranks
  config.train.steps = 4;
  config.schedule.warmup_steps = 2;
  config.optimizer.lr = 1e-2;
  config.parallel.bucket_bytes = 4096;  // many buckets
  return config;
}

// Matrices of several blocks of norms and of compression, which ZeRO and servers cut.
inline Config several_blocks(Config config) {
  config.model.hidden_size = 48;
  config.model.head_dim = 12;
  return config;
}

// As many experts as two, four and eight ranks can share out.
inline Config eight_experts(Config config) {
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  return config;
}

// With a channel "masked" a loss mask leaves out many targets of every other sequence: two of three tokens, and all tokens of
// sequences 2 and 3, a micro-batch of `tiny` and `uneven`.
inline Config with_loss_mask(Config config) {
  config.data.channels = {{.name = "plain", .path = "plain"}, {.name = "masked", .path = "masked"}};
  return config;
}
inline bool is_masked(const Config& config, int64_t sequence, int64_t token) {
  if (config.data.channels.empty()) return false;
  return sequence == 2 || sequence == 3 || (sequence % 2 == 1 && (token + sequence) % 3 != 0);
}

// The tokens of micro-batch g of step s: made from their address, like everything random.
inline Batch make_batch(const Config& config, int64_t step, int64_t micro_batch) {
  Batch batch;
  batch.step = step;
  batch.micro_batch = micro_batch;
  batch.first_index = micro_batch * config.train.micro_batch_size;
  batch.seq_len = config.data.seq_len;
  batch.num_sequences =
      std::min(config.train.micro_batch_size, config.train.global_batch_size - batch.first_index);
  const RandomStream stream(5, "tokens");
  for (int64_t b = 0; b < batch.num_sequences; ++b) {
    batch.channel_of.push_back(static_cast<int32_t>((batch.first_index + b) % 2));
    for (int64_t t = 0; t < batch.seq_len; ++t) {
      const auto at = static_cast<uint64_t>((batch.first_index + b) * batch.seq_len + t);
      batch.tokens.push_back(static_cast<int32_t>(stream.word(at, static_cast<uint64_t>(step)) % 41));
      batch.targets.push_back(static_cast<int32_t>((batch.tokens.back() * 7 + 3) % 41));
      if (is_masked(config, batch.first_index + b, t)) batch.targets.back() = kNoTarget;
      if (config.data.document_mask)  // three documents a sequence, not cut alike
        batch.document_starts.push_back(static_cast<int32_t>(t < 2 + b ? 0 : t < 7 ? 2 + b : 7));
    }
  }
  if (config.model.is_encoder()) batch.document_ends = document_ends_of(batch.document_starts, batch.seq_len);
  return batch;
}

struct Outcome {
  std::vector<StepResult> steps;
  std::vector<float> weights;
};

// The numbers of law 5 as bits: a gradient norm that is not a number equals itself.
inline std::vector<uint64_t> bits(const StepResult& step) {
  std::vector<uint64_t> all = {std::bit_cast<uint64_t>(step.loss), std::bit_cast<uint64_t>(step.grad_norm),
                               std::bit_cast<uint64_t>(step.loss_scale), static_cast<uint64_t>(step.tokens)};
  for (const double loss : step.channel_loss) all.push_back(std::bit_cast<uint64_t>(loss));
  return all;
}

inline bool same_bits(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (bits(a.steps[i]) != bits(b.steps[i])) return false;
  return a.weights == b.weights;
}

// All steps of a training that has yet to be allocated.
inline std::vector<StepResult> run_steps(Training& training, const Config& config,
                                         const std::function<void(const Training&)>& after_step) {
  training.allocate();
  training.model->initialize(config.train.seed);
  TrainState state = first_state(config);
  std::vector<StepResult> results;
  Batch batch;
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    const std::vector<int64_t> micro_batches = training.own_micro_batches();
    auto micro_batch = micro_batches.begin();
    results.push_back(training.role->step(state, [&]() -> const Batch& {
      batch = make_batch(config, step, *micro_batch++);
      return batch;
    }));
    if (after_step) after_step(training);
  }
  return results;
}

// One rank of a training, in the layout that its config asks for on the ranks of the world.
struct TrainingRank {
  TrainingRank(const Config& config, World& world, Arena& arena, int64_t num_channels = 2)
      : layout(make_layout(config, {.world_size = world.size()})),
        groups(layout, world),
        training(config, layout, groups, arena, {.num_channels = num_channels}) {}
  Layout layout;
  Groups groups;
  Training training;
};

// The f32 values of a parameter that may be sharded, on every rank. Collective.
inline std::vector<float> whole_values(const DataParallel& parallel, const Param& param) {
  std::vector<float> values(static_cast<size_t>(param.numel()));
  if (param.whole()) {
    param.load(values.data());
    return values;
  }
  const auto [group, pieces] = parallel.ranks_of(param);
  int64_t most = 0;
  for (const FlatRange& piece : pieces) most = std::max(most, piece.count());
  std::vector<float> mine(static_cast<size_t>(most)), gathered(static_cast<size_t>(most * group->size()));
  param.read_master(0, param.range().count(), mine.data());
  group->all_gather(mine.data(), gathered.data(), most, Dtype::f32, "values of " + param.name()).wait();
  for (size_t rank = 0; rank < pieces.size(); ++rank)
    std::copy_n(gathered.begin() + static_cast<std::ptrdiff_t>(rank) * most, pieces[rank].count(),
                values.begin() + pieces[rank].first);
  return values;
}

inline Outcome run(const Config& config, int ranks, int threads = 1,
                   const std::function<void(const Training&)>& after_step = {}) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    Engine engine(threads);
    TrainingRank rank(config, world, engine.arena);
    Training& training = rank.training;
    Outcome& outcome = outcomes[static_cast<size_t>(world.rank())];
    outcome.steps = run_steps(training, config, after_step);
    for (const auto& param : training.model->params()) {
      const std::vector<float> values = whole_values(parallel_of(training), *param);
      outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
    }
  });
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(same_bits(outcome, outcomes[0])) << "ranks disagree";
  return outcomes[0];
}

}  // namespace athanor::tests
