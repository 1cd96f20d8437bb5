// Two-speed synchronisation against its definition: as many trainings as there are replica groups, one after the other in one
// thread, and the outer optimizer in plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/defined_sums.h"
#include "train/replica_group_ranks.h"

namespace athanor::tests::two_speed_test {
namespace {

struct TwoSpeedDefinition {
  std::vector<double> losses;             // over all replica groups
  std::vector<double> grad_norms;         // of the first replica group
  std::map<std::string, Floats> weights;  // the outer ones
};

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
  replica_group.parallel->finish();
  double squares = 0.0;
  for (const double of_param : replica_group.parallel->sum_squares(replica_group.model->params()))
    squares += of_param;
  for (const auto& param : replica_group.model->params())
    done.grads[param.get()] = replica_group.parallel->grad(*param);
  done.grad_norm = std::sqrt(squares) / done.losses.tokens;
  return done;
}

TwoSpeedDefinition define_two_speed(const Config& config, int num_replica_groups) {
  const Config alone = one_rank_of(config);
  const bool compressed = config.compression.method != "none" && config.local_sgd.group_size > 1,
             coded = config.local_sgd.compression != "none" && num_replica_groups > 1;
  Engine engine;
  const auto group = make_single_group();
  std::vector<std::unique_ptr<Training>> replica_groups;
  std::vector<DefinedSums> sums;
  CompressionDefinition meetings(config.local_sgd.compression, config.compression.error_feedback);
  for (int h = 0; h < num_replica_groups; ++h) {
    sums.emplace_back(config);
    replica_groups.push_back(std::make_unique<Training>(alone, 2, *group, engine.arena, nullptr, nullptr));
    replica_groups.back()->allocate();
    replica_groups.back()->model->initialize(config.train.seed);
  }
  const auto& params = replica_groups[0]->model->params();
  TwoSpeedDefinition run;
  std::map<std::string, Floats> momentum;
  for (const auto& param : params) {
    run.weights[param->name()] = to_floats(param->master());
    momentum[param->name()].resize(static_cast<size_t>(param->numel()), 0.0f);
  }
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    double loss = 0.0, tokens = 0.0;
    for (int h = 0; h < num_replica_groups; ++h) {
      Training& replica_group = *replica_groups[static_cast<size_t>(h)];
      const LeafRange micro_batches =
          micro_batches_of_rank(replica_group.num_micro_batches, num_replica_groups, h);
      const DefinedStep done =
          compressed ? sums[static_cast<size_t>(h)].step(
                           replica_group, step, {shared_out(micro_batches, config.local_sgd.group_size)})
                     : plain_step(replica_group, config, step, micro_batches);
      loss += done.losses.loss;
      tokens += done.losses.tokens;
      if (h == 0) run.grad_norms.push_back(done.grad_norm);
      replica_group.optimizer->step([&](Param& param) -> const Tensor& { return done.grads.at(&param); },
                                    {.update = step,
                                     .lr = schedule_of(config).at(step),
                                     .grad_scale = done.clip(config) / done.losses.tokens});
    }
    run.losses.push_back(loss / tokens);
    if (step % config.local_sgd.sync_interval != 0) continue;
    for (size_t p = 0; p < params.size(); ++p) {
      Floats &w = run.weights[params[p]->name()], &u = momentum[params[p]->name()];
      const float share = 1.0f / static_cast<float>(num_replica_groups),
                  mu = static_cast<float>(config.local_sgd.outer_momentum);
      std::vector<Floats> away(replica_groups.size(), Floats(w.size()));
      for (size_t h = 0; h < replica_groups.size(); ++h)
        for (size_t i = 0; i < w.size(); ++i)
          away[h][i] = w[i] - replica_groups[h]->model->params()[p]->master().data<float>()[i];
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
      for (const auto& replica_group : replica_groups) replica_group->model->params()[p]->store(w.data());
    }
  }
  return run;
}

std::map<std::string, Floats> weights_at(const std::string& path, const std::string& prefix = "model.") {
  const Checkpoint checkpoint = Checkpoint::open(system_env(), path);
  std::map<std::string, Floats> weights;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (!entry.name.starts_with(prefix)) continue;
    Floats& values = weights[entry.name.substr(prefix.size())];
    values.resize(static_cast<size_t>(entry.shape.numel()));
    checkpoint.read(entry.name, values.data());
  }
  return weights;
}

std::string folder_of(const std::string& name) {
  return temporary_path("two_speed_" + name);
}

TEST(TwoSpeed, HasTheBitsOfItsDefinition) {
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
    Config config = replica_groups_of_ranks(c.every, c.group, c.optimizer);
    config.compression.method = c.inner;
    config.local_sgd.compression = c.outer;
    if (std::string(c.inner) != "none") config.parallel.reduce = "fast";
    if (std::string(c.inner) == "topk") config.compression.ratio = 0.2;
    config.model.hidden_size = 48;  // matrices of several norm blocks, which ZeRO cuts
    config.model.head_dim = 12;
    const std::string folder = folder_of("definition");
    const auto steps = train_chain(config, {{c.ranks, 6, c.zero}}, folder);
    config.parallel.zero_stage = c.zero;
    const TwoSpeedDefinition expected = define_two_speed(config, c.ranks / c.group);
    const std::string what = std::to_string(c.ranks) + " ranks in groups of " + std::to_string(c.group) +
                             ", zero " + std::to_string(c.zero) + ", " + c.optimizer + ", " + c.inner + ", " +
                             c.outer;
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(steps[i].loss, expected.losses[i], 1e-12) << what;  // added up in another order
      EXPECT_DOUBLE_EQ(steps[i].grad_norm, expected.grad_norms[i]) << what;
    }
    EXPECT_EQ(weights_at(folder + "/6"), expected.weights) << what;
    for (int h = 0; h < c.ranks / c.group; ++h)
      EXPECT_EQ(weights_at(folder + "/6", "replica." + std::to_string(h) + ".model."), expected.weights)
          << what;
  }
}

// The comparison sees what it is there to see: the outer momentum set to zero after the first meeting, and replica groups that
// do not meet.
TEST(TwoSpeed, PlantedFaultsShow) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Config config = replica_groups_of_ranks(3, 2, optimizer);
    const TwoSpeedDefinition expected = define_two_speed(config, 2);
    const auto weights_with = [&](float kept) {
      train_chain(config, {{4, 3}, {4, 3}}, folder_of("fault"), [&](Training& training, Group&) {
        for (const OuterSync::Piece& piece : training.outer->pieces()) {
          Tensor momentum = piece.momentum;
          kernels_of(momentum).elementwise.scale(momentum.queue(), momentum, kept);
        }
      });
      return weights_at(folder_of("fault") + "/6");
    };
    EXPECT_EQ(weights_with(1.0f), expected.weights) << "without a fault";
    EXPECT_NE(weights_with(0.0f), expected.weights) << "forgotten outer momentum, " << optimizer;
    Config alone = config;
    alone.local_sgd.sync_interval = 6;
    train_chain(alone, {{4, 6}}, folder_of("fault"));
    EXPECT_NE(weights_at(folder_of("fault") + "/6"), expected.weights)
        << "a forgotten meeting, " << optimizer;
  }
}

// Every step, with outer lr 1 and no momentum: the mean of the weights, which for SGD is that of the gradients.
TEST(TwoSpeed, EveryStepWithoutMomentumIsPlainAveraging) {
  Config config = replica_groups_of_ranks(1, 1, "sgd");
  config.local_sgd.outer_lr = 1.0;
  config.local_sgd.outer_momentum = 0.0;
  config.optimizer.momentum = 0.0;
  config.optimizer.max_grad_norm = 0.0;
  const auto got = train_chain(config, {{4, 6}}, folder_of("plain"));
  config.local_sgd.sync_interval = 0;
  const auto expected = train_chain(config, {{4, 6}}, folder_of("plain_one"));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].loss, expected[i].loss, 1e-6) << i;
  const auto a = weights_at(folder_of("plain") + "/6"), b = weights_at(folder_of("plain_one") + "/6");
  for (const auto& [name, values] : b)
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(a.at(name)[i], values[i], 1e-6) << name;
}

TEST(TwoSpeed, ResumesToTheSameBitsAlsoBetweenTwoMeetings) {
  struct Case {
    int zero;
    const char *inner = "none", *outer = "none";
  };
  for (const auto& [zero, inner, outer] :
       {Case{0}, Case{3}, Case{0, "int8", "int8"}, Case{1, "powersgd", "bf16"}, Case{3, "none", "int8"},
        Case{0, "onebit-adam", "int8"}, Case{0, "topk"}}) {
    Config config = replica_groups_of_ranks(3, 2);
    config.compression.method = inner;
    config.local_sgd.compression = outer;
    config.compression.warmup_steps = 1;
    if (std::string(inner) != "none") config.parallel.reduce = "fast";
    const auto whole = train_chain(config, {{4, 6, zero}}, folder_of("whole"));
    const auto parts = train_chain(config, {{4, 2, zero}, {4, 2, zero}, {4, 2, zero}}, folder_of("parts"));
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(bits(whole[i]), bits(parts[i])) << "step " << i + 1;
    EXPECT_EQ(Checkpoint::open(system_env(), folder_of("whole") + "/6").digest(),
              Checkpoint::open(system_env(), folder_of("parts") + "/6").digest());
  }
}

TEST(TwoSpeed, AnotherLayoutOfTheSameReplicaGroupsResumesToTheSameBits) {
  Config config = replica_groups_of_ranks(2, 2);
  for (const char* outer : {"none", "int8"}) {  // what codes left out of the first two meetings included
    config.local_sgd.compression = outer;
    train_chain(config, {{4, 6, 0}}, folder_of("whole"));
    train_chain(config, {{4, 2, 3}, {4, 2, 1}, {4, 2, 2}}, folder_of("stages"));
    EXPECT_EQ(Checkpoint::open(system_env(), folder_of("whole") + "/6").digest(),
              Checkpoint::open(system_env(), folder_of("stages") + "/6").digest())
        << outer;
  }
}

// What is owed to the mean, over all replica groups and in the sum, is the same whoever reads it; none is owed without codes.
TEST(TwoSpeed, OtherNumbersOfReplicaGroupsOweTheSame) {
  Config config = replica_groups_of_ranks(2, 1);
  config.local_sgd.compression = "int8";
  const auto owed = [&] {
    std::map<std::string, double> sums;
    const Checkpoint checkpoint = Checkpoint::open(system_env(), folder_of("owed") + "/4");
    for (const TensorEntry& entry : checkpoint.tensors()) {
      for (const std::string kind : {"outer.error_feedback.", "outer.server_error."}) {
        const size_t at = entry.name.find(kind);
        if (at == std::string::npos) continue;
        Floats values(static_cast<size_t>(entry.shape.numel()));
        checkpoint.read(entry.name, values.data());
        for (const float value : values) sums[entry.name.substr(at + kind.size())] += double{value};
      }
    }
    return sums;
  };
  train_chain(config, {{4, 4}}, folder_of("owed"));
  const auto before = owed();
  EXPECT_FALSE(before.empty());
  for (const int replica_groups : {2, 3, 5}) {
    train_chain(config, {{4, 4}, {replica_groups, 0}}, folder_of("owed"));
    const auto after = owed();
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, sum] : before) EXPECT_NEAR(after.at(name), sum, 1e-6) << name << replica_groups;
  }
}

TEST(TwoSpeed, ForgottenErrorFeedbackOfMeetingsShows) {
  for (const char* kind : {"bf16", "int8"}) {
    Config config = replica_groups_of_ranks(2, 2, "sgd");
    config.local_sgd.compression = kind;
    const TwoSpeedDefinition expected = define_two_speed(config, 2);
    train_chain(config, {{4, 6}}, folder_of("feedback"));
    EXPECT_EQ(weights_at(folder_of("feedback") + "/6"), expected.weights) << kind;
    config.compression.error_feedback = false;
    train_chain(config, {{4, 6}}, folder_of("feedback"));
    EXPECT_NE(weights_at(folder_of("feedback") + "/6"), expected.weights) << kind;
    EXPECT_EQ(weights_at(folder_of("feedback") + "/6"), define_two_speed(config, 2).weights) << kind;
  }
}

TEST(TwoSpeed, ReplicaGroupsComeAndGo) {
  Config config = replica_groups_of_ranks(3, 2);
  // From one replica group of all to three, and to two: the steps go on.
  const auto steps = train_chain(config, {{2, 2}, {6, 2}, {4, 2}}, folder_of("elastic"));
  EXPECT_LT(steps.back().loss, steps.front().loss);
  const std::string path = folder_of("elastic") + "/6";
  Engine engine;
  const auto group = make_single_group();
  config.local_sgd.sync_interval = 0;
  Training one(config, 2, *group, engine.arena, nullptr, nullptr);
  one.allocate();
  try {
    one.load(Checkpoint::open(system_env(), path));
    FAIL() << "replica groups are no single training";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("local_sgd.sync_interval"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace athanor::tests::two_speed_test
