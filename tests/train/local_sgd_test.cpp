// Local SGD against its definition: as many trainings as there are replica groups, one after the other in one thread, and
// the outer optimizer in plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/tiers.h"
#include "train/defined_sums.h"
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"
#include "train/role_of.h"
#include "train/saved_run.h"

namespace athanor::tests::local_sgd_test {
namespace {

std::vector<LeafRange> shared_out(const LeafRange& micro_batches, int64_t ranks) {
  std::vector<LeafRange> of_ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [first, last] =
        micro_batches_of_rank(micro_batches.second - micro_batches.first, static_cast<int>(ranks), rank);
    of_ranks.emplace_back(micro_batches.first + first, micro_batches.first + last);
  }
  return of_ranks;
}

DefinedStep plain_step(Training& replica_group, const Config& config, int64_t step,
                       const LeafRange& micro_batches) {
  DefinedStep done{.losses = accumulate(replica_group, config, step, micro_batches), .grads = {}};
  parallel_of(replica_group).finish();
  double squares = 0.0;
  for (const double of_param : parallel_of(replica_group).sum_squares(replica_group.model->params()))
    squares += of_param;
  for (const auto& param : replica_group.model->params())
    done.grads[param.get()] = parallel_of(replica_group).grad(*param);
  done.grad_norm = std::sqrt(squares) / done.losses.tokens;
  return done;
}

// Losses over all replica groups, gradient norms of the first, the outer weights.
DefinedRun define_local_sgd(const Config& config) {
  const auto num_replica_groups = static_cast<int>(config.parallel.dp / config.local_sgd.group_size);
  const Config alone = one_rank_of(config);
  const bool compressed = config.compression.method != "none" && config.local_sgd.group_size > 1,
             coded = config.local_sgd.compression != "none" && num_replica_groups > 1;
  Engine engine;
  const auto world = make_single_world();
  std::vector<std::unique_ptr<TrainingRank>> replica_groups;
  std::vector<DefinedSums> sums;
  CompressionDefinition meetings(config.local_sgd.compression, config.compression.error_feedback);
  for (int h = 0; h < num_replica_groups; ++h) {
    sums.emplace_back(config);
    replica_groups.push_back(std::make_unique<TrainingRank>(alone, *world, engine.arena));
    replica_groups.back()->training.allocate();
    replica_groups.back()->training.model->initialize(config.train.seed);
  }
  const auto& params = replica_groups[0]->training.model->params();
  DefinedRun run;
  run.weights = weights_of(*replica_groups[0]->training.model);
  std::map<std::string, Floats> momentum;
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    double loss = 0.0, tokens = 0.0;
    for (int h = 0; h < num_replica_groups; ++h) {
      Training& replica_group = replica_groups[static_cast<size_t>(h)]->training;
      const LeafRange micro_batches =
          micro_batches_of_rank(replica_group.num_micro_batches, num_replica_groups, h);
      const DefinedStep done =
          compressed ? sums[static_cast<size_t>(h)].step(
                           replica_group, step, {shared_out(micro_batches, config.local_sgd.group_size)})
                     : plain_step(replica_group, config, step, micro_batches);
      loss += done.losses.loss;
      tokens += done.losses.tokens;
      if (h == 0) run.grad_norms.push_back(done.grad_norm);
      role_of(replica_group)
          .optimizer()
          .step([&](Param& param) -> const Tensor& { return done.grads.at(&param); },
                {.update = step,
                 .lr = schedule_of(config).at(step),
                 .grad_scale = done.clip(config) / done.losses.tokens});
    }
    run.losses.push_back(loss / tokens);
    if (step % config.local_sgd.sync_interval != 0) continue;
    for (size_t p = 0; p < params.size(); ++p) {
      Floats &w = run.weights.at("model." + params[p]->name()), &u = momentum[params[p]->name()];
      u.resize(w.size(), 0.0f);
      const float share = 1.0f / static_cast<float>(num_replica_groups),
                  mu = static_cast<float>(config.local_sgd.outer_momentum);
      std::vector<Floats> away(replica_groups.size(), Floats(w.size()));
      for (size_t h = 0; h < replica_groups.size(); ++h)
        for (size_t i = 0; i < w.size(); ++i)
          away[h][i] = w[i] - replica_groups[h]->training.model->params()[p]->master().data<float>()[i];
      Floats means(w.size());
      if (coded) {
        for (Floats& x : away)
          for (float& value : x) value *= share;
        means = meetings.sum(params[p]->name(), away, 1);
      }
      for (size_t i = 0; i < w.size(); ++i) {
        float sum = 0.0f;
        for (const Floats& x : away) sum += x[i];
        const float mean = coded ? means[i] : sum * share;
        u[i] = mu * u[i] + mean;
        w[i] -= static_cast<float>(config.local_sgd.outer_lr) * (mean + mu * u[i]);
      }
      for (const auto& replica_group : replica_groups)
        replica_group->training.model->params()[p]->store_whole(w.data());
    }
  }
  return run;
}

void expect_defined_groups(const Config& config, const VerifyRun& got, const std::string& what) {
  const DefinedRun expected = define_local_sgd(config);
  expect_defined(got, expected, {}, what);
  for (size_t i = 0; i < expected.grad_norms.size(); ++i)
    EXPECT_DOUBLE_EQ(got.grad_norms[i], expected.grad_norms[i]) << what;
  for (int64_t h = 0; h < config.parallel.dp / config.local_sgd.group_size; ++h)
    for (const auto& [name, values] : expected.weights)
      EXPECT_EQ(got.weights.at(fmt::format("replica.{}.{}", h, name)), values) << name << ", " << what;
}

TEST(LocalSgd, HasTheBitsOfItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  struct Case {
    int ranks, group;
    int64_t every;
    int zero;
    const char* optimizer;
    const char *inner = "none", *outer = "none";  // compression
  };
  for (const Case& c :
       {Case{2, 1, 2, 0, "adamw"}, Case{2, 1, 3, 0, "sgd"}, Case{4, 2, 3, 0, "adamw"},
        Case{6, 3, 2, 0, "sgd"}, Case{4, 2, 2, 1, "adamw"}, Case{4, 2, 2, 2, "sgd"},
        Case{6, 2, 3, 3, "adamw"}, Case{3, 3, 2, 0, "adamw"},
        // Gradients in the replica groups, what replica groups tell each other, both.
        Case{4, 2, 3, 0, "adamw", "int8"}, Case{6, 3, 2, 0, "sgd", "topk"}, Case{4, 2, 2, 1, "sgd", "bf16"},
        Case{2, 1, 3, 0, "adamw", "int8"}, Case{2, 1, 3, 0, "sgd", "none", "int8"},
        Case{4, 2, 2, 0, "adamw", "none", "bf16"}, Case{6, 2, 2, 3, "adamw", "none", "int8"},
        Case{6, 3, 3, 0, "adamw", "bf16", "int8"}, Case{3, 3, 2, 0, "sgd", "none", "int8"}}) {
    const Axes axes{.dp = c.ranks, .zero = c.zero, .group = c.group};
    Config config = in_axes(several_blocks(local_sgd("llama", c.optimizer, c.every)), axes);
    config.compression.method = c.inner;
    config.compression.ratio = 0.2;
    config.local_sgd.compression = c.outer;
    if (std::string(c.inner) != "none") config.parallel.reduce = "fast";
    expect_defined_groups(config, run_layout(config),
                          fmt::format("{} {} {} {}", text_of(axes), c.optimizer, c.inner, c.outer));
  }
}

// The comparison sees what it is there to see: the outer momentum set to zero after the first outer step, and replica groups
// that leave one out.
TEST(LocalSgd, PlantedFaultsShow) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Config config = in_axes(local_sgd("llama", optimizer), {.dp = 4, .group = 2});
    const DefinedRun expected = define_local_sgd(config);
    const auto gap_with = [&](float kept) {
      const VerifyRun run =
          run_layout(config, {.after_step = [&](Training& training, TrainState& state, World&) {
                       if (state.step != 3) return;
                       for (const OuterPiece& piece : training.role->outer()->pieces()) {
                         Tensor momentum = piece.momentum;
                         kernels_of(momentum).elementwise.scale(momentum.queue(), momentum, kept);
                       }
                     }});
      return weights_gap(run.weights, expected.weights);
    };
    EXPECT_EQ(gap_with(1.0f), 0.0) << "without a fault";
    EXPECT_GT(gap_with(0.0f), 0.0) << "forgotten outer momentum, " << optimizer;
    config.local_sgd.sync_interval = 6;
    EXPECT_GT(gap_with(1.0f), 0.0) << "a forgotten outer step, " << optimizer;
  }
}

// What is owed to the mean, over all replica groups and in the sum, is the same whoever reads it; none is owed without
// compression.
TEST(LocalSgd, OtherNumbersOfReplicaGroupsOweTheSame) {
  Config config = local_sgd("llama", "adamw", 2);
  config.local_sgd.compression = "int8";
  config.train.steps = 4;
  const SavedRun saved = save_after(in_axes(config, {.dp = 4, .group = 1}), 4);
  const auto before = owed(saved.run.state);
  EXPECT_FALSE(before.empty());
  for (const int replica_groups : {2, 3, 5}) {
    const auto after = owed(resume(in_axes(config, {.dp = replica_groups, .group = 1}), saved).state);
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, sum] : before) EXPECT_NEAR(after.at(name), sum, 1e-6) << name << replica_groups;
  }
}

TEST(LocalSgd, ForgottenErrorFeedbackOfOuterStepsShows) {
  for (const char* kind : {"bf16", "int8"}) {
    Config config = in_axes(local_sgd("llama", "sgd", 2), {.dp = 4, .group = 2});
    config.local_sgd.compression = kind;
    const DefinedRun expected = define_local_sgd(config);
    EXPECT_EQ(weights_gap(run_layout(config).weights, expected.weights), 0.0) << kind;
    config.compression.error_feedback = false;
    const VerifyRun forgotten = run_layout(config);
    EXPECT_GT(weights_gap(forgotten.weights, expected.weights), 0.0) << kind;
    EXPECT_EQ(weights_gap(forgotten.weights, define_local_sgd(config).weights), 0.0) << kind;
  }
}

TEST(LocalSgd, ReplicaGroupsComeAndGo) {
  const auto of = [](int dp) { return in_axes(local_sgd("llama", "adamw"), {.dp = dp, .group = 2}); };
  // From one replica group of all to three, and to two: the steps go on.
  const SavedRun one = save_after(of(2), 2), three = save_after(of(6), 4, &one),
                 two = save_after(of(4), 6, &three);
  EXPECT_LT(two.run.losses.back(), one.run.losses.front());
  Config alone = in_axes(local_sgd("llama", "adamw", 0), {});
  try {
    resume(alone, two);
    FAIL() << "replica groups are no single training";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("local_sgd.sync_interval"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace athanor::tests::local_sgd_test
