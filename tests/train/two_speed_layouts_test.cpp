// Two-speed synchronisation with the other axes: whatever the layout inside the islands, they are the islands that one
// process each computes, to the bit where law 1 says so and within 1e-5 elsewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/train/layout_walk.h"
#include "athanor/train/memory_plan.h"
#include "support/temporary_folder.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

struct IslandLayout {
  int dp = 2, group = 1, cp = 1, tp = 1, pp = 1, ep = 1, zero = 0;
  bool sp = false;
  const char* cp_method = "ring";
  const char* schedule = "1f1b";
};

Config in_islands(Config config, const IslandLayout& layout) {
  ParallelConfig& p = config.parallel;
  p.dp = layout.dp;
  config.local_sgd.group_size = layout.group;
  p.cp = layout.cp;
  p.tp = layout.tp;
  p.pp = layout.pp;
  p.ep = layout.ep;
  p.zero_stage = layout.zero;
  p.sp = layout.sp;
  p.cp_method = layout.cp_method;
  p.schedule = layout.schedule;
  return config;
}

Config tree_islands(const std::string& family, const std::string& optimizer, int64_t every = 3) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  config.train.global_batch_size = 16;  // eight grains
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside an island: the bits of one process
  config.local_sgd.sync_interval = every;
  return config;
}

std::string text_of_islands(const Config& config) {
  return config.model.model_type + " " + config.optimizer.name + " groups of " +
         std::to_string(config.local_sgd.group_size) + ": " + text_of(config.parallel);
}

// After a meeting.
void expect_equal_islands(const Config& config, const VerifyRun& run) {
  int64_t compared = 0;
  for (int64_t h = 0; h < config.parallel.dp / config.local_sgd.group_size; ++h)
    for (const auto& [name, values] : run.weights) {
      if (!name.starts_with("model.")) continue;
      EXPECT_EQ(run.weights.at("replica." + std::to_string(h) + "." + name), values)
          << name << " of replica group " << h << ", " << text_of_islands(config);
      ++compared;
    }
  EXPECT_GT(compared, 0);
}

void expect_as_alone(const Config& config, const VerifyRun& alone) {
  const VerifyRun many = run_layout(config);
  const LayoutDifference found = compare(many, alone);
  if (keeps_order(config.parallel)) {
    EXPECT_TRUE(found.bitwise) << text_of_islands(config) << ": " << found.worst();
  } else {
    EXPECT_LE(found.worst(), kTolerance)
        << text_of_islands(config) << ": " << found.weight.where << " " << found.gradient.where;
  }
  EXPECT_EQ(found.routing_flips, 0) << text_of_islands(config);
  expect_equal_islands(config, many);
}

// The definition of islands of one process each is two_speed_test.cpp's.
void expect_every_layout(const Config& config, const std::vector<IslandLayout>& layouts) {
  std::map<int, VerifyRun> alone;  // by the number of islands
  for (const IslandLayout& layout : layouts) {
    const Config many = in_islands(config, layout);
    const int islands = layout.dp / layout.group;
    if (!alone.contains(islands)) alone.emplace(islands, run_layout(one_process(many)));
    expect_as_alone(many, alone.at(islands));
  }
}

class TwoSpeedLayouts : public ::testing::TestWithParam<const char*> {};  // the inner optimizer

TEST_P(TwoSpeedLayouts, PipelinesAndContextParallelism) {
  for (const char* family : {"llama", "gpt2"})  // of gpt2 the embedding is on both ends of a pipeline
    expect_every_layout(tree_islands(family, GetParam()),
                        {{.dp = 2, .pp = 2},
                         {.dp = 4, .group = 2, .pp = 2},
                         {.dp = 4, .group = 2, .pp = 2, .zero = 1},
                         {.dp = 4, .group = 2, .pp = 2, .zero = 3},
                         {.dp = 2, .pp = 2, .schedule = "zb-h1"},
                         {.dp = 3, .pp = 2},
                         {.dp = 2, .cp = 2},
                         {.dp = 4, .group = 2, .cp = 2, .cp_method = "ulysses"},
                         {.dp = 3, .cp = 2, .zero = 1},
                         {.dp = 4, .group = 2, .cp = 2, .zero = 2},
                         {.dp = 2, .cp = 2, .zero = 3},
                         {.dp = 2, .tp = 2, .pp = 2},
                         {.dp = 2, .cp = 2, .tp = 2, .pp = 1, .sp = true},
                         {.dp = 2, .cp = 2, .pp = 2, .zero = 3}});
}

// Blocks of 256 elements of a parameter, whoever has them.
TEST_P(TwoSpeedLayouts, CodesOfMeetingsAreTheSameInPipelinesAndShards) {
  Config config = tree_islands("gpt2", GetParam());
  config.local_sgd.compression = "int8";
  expect_every_layout(config, {{.dp = 2, .pp = 2},
                               {.dp = 4, .group = 2, .pp = 2},
                               {.dp = 4, .group = 2, .pp = 2, .zero = 1},
                               {.dp = 4, .group = 2, .zero = 3}});
}

TEST_P(TwoSpeedLayouts, ExpertParallelism) {
  expect_every_layout(tree_islands("moe", GetParam()),
                      {{.dp = 4, .group = 2, .ep = 2},
                       {.dp = 8, .group = 4, .ep = 2},
                       {.dp = 8, .group = 4, .ep = 2, .zero = 1},
                       {.dp = 8, .group = 4, .ep = 2, .zero = 3},
                       {.dp = 4, .group = 2, .pp = 2, .ep = 2},
                       {.dp = 2, .tp = 2, .ep = 2},
                       {.dp = 4, .group = 2, .tp = 2, .ep = 2, .sp = true},
                       {.dp = 2, .tp = 2},
                       {.dp = 4, .group = 2, .tp = 2, .zero = 3, .sp = true}});
  expect_every_layout(tree_islands("moe_bias", GetParam()),  // whose balance is that of all islands
                      {{.dp = 4, .group = 2, .ep = 2},
                       {.dp = 2, .cp = 2, .ep = 2},
                       {.dp = 4, .group = 2, .tp = 2, .zero = 1},
                       {.dp = 4, .group = 2, .cp = 2, .ep = 2, .zero = 2},
                       {.dp = 2, .cp = 2, .pp = 2, .ep = 2}});
}

INSTANTIATE_TEST_SUITE_P(All, TwoSpeedLayouts, ::testing::Values("adamw", "sgd"));

const std::vector<std::pair<const char*, IslandLayout>> kEveryAxis = {
    {"gpt2", {.dp = 4, .group = 2, .pp = 2}},
    {"llama", {.dp = 4, .group = 2, .cp = 2}},
    {"moe", {.dp = 4, .group = 2, .ep = 2}},
    {"moe", {.dp = 4, .group = 2, .pp = 2, .ep = 2, .zero = 1}},
};

// Every step, with outer lr 1 and no momentum: the mean of the weights, which for SGD is that of the gradients.
TEST(TwoSpeedEveryAxis, EveryStepWithoutMomentumIsPlainAveraging) {
  for (const auto& [family, layout] : kEveryAxis) {
    Config config = in_islands(tree_islands(family, "sgd", 1), layout);
    config.model.router_aux_loss_coef = config.model.router_z_loss_coef = 0.0;
    config.local_sgd.outer_lr = 1.0;
    config.local_sgd.outer_momentum = config.optimizer.momentum = config.optimizer.max_grad_norm = 0.0;
    const VerifyRun got = run_layout(config);
    Config plain = config;
    plain.local_sgd.sync_interval = 0;
    const VerifyRun expected = run_layout(plain);
    for (size_t i = 0; i < expected.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-6) << text_of_islands(config);
    for (const auto& [name, values] : expected.weights)
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got.weights.at(name)[i], values[i], 1e-6) << name << ", " << text_of_islands(config);
  }
}

// Between two meetings an island is a training of its own, on its own grains, in the same layout, compressed or not.
TEST(TwoSpeedEveryAxis, BetweenMeetingsAnIslandIsATrainingOfItsOwn) {
  const char* const kinds[] = {"int8", "powersgd", "onebit-adam", "bf16"};
  for (size_t i = 0; i < 2 * kEveryAxis.size(); ++i) {
    const auto& [family, layout] = kEveryAxis[i / 2];
    const std::string kind = i % 2 == 0 ? "none" : kinds[i / 2];
    Config config = in_islands(tree_islands(family, "adamw", 12), layout);  // they have not met yet
    if (kind != "none") config.parallel.reduce = "fast";
    config.compression.method = kind;
    config.compression.warmup_steps = 1;
    const VerifyRun many = run_layout(config);
    for (int64_t h = 0; h < 2; ++h) {
      Config alone = config;
      alone.local_sgd.sync_interval = 0;
      alone.parallel.dp = layout.group;
      alone.train.global_batch_size /= 2;
      const VerifyRun island = run_layout(
          alone, 2,
          [&](int64_t step, int64_t grain, Batch& batch) { batch = make_batch(config, step, 4 * h + grain); },
          alone.train.steps, ranks_of(alone.parallel));
      const std::string own = "replica." + std::to_string(h) + ".";
      for (const auto& [name, values] : island.weights)
        EXPECT_EQ(many.weights.at(own + name), values) << name << ", " << text_of_islands(config);
      for (const auto& [name, values] : island.state)
        EXPECT_EQ(many.state.at(own + name), values) << name << ", " << text_of_islands(config);
      for (const auto& [name, values] : island.gradients)
        EXPECT_EQ(many.gradients.at(own + name), values) << name << ", " << text_of_islands(config);
      if (h == 0) {
        EXPECT_EQ(many.grad_norms, island.grad_norms) << text_of_islands(config);
      }
    }
  }
}

struct Sent {
  int64_t bytes = 0, params = 0;  // across islands, by all ranks; of the model
};

Sent sent_across(const Config& config) {
  std::mutex mutex;
  Sent sent;
  run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
               const std::lock_guard lock(mutex);
               sent.bytes += training.islands().across->traffic().total().bytes;
               sent.params = training.model->num_params();
             }});
  return sent;
}

TEST(TwoSpeedEveryAxis, MeetingsSendTheDocumentedBytesOnceInKSteps) {
  for (const auto& [family, layout] : kEveryAxis) {
    const int64_t every_step = sent_across(in_islands(tree_islands(family, "sgd", 1), layout)).bytes;
    EXPECT_GT(every_step, 0);
    for (const int64_t every : {2, 3, 6}) {
      const Config config = in_islands(tree_islands(family, "sgd", every), layout);
      EXPECT_EQ(sent_across(config).bytes * every, every_step) << every << ": " << text_of_islands(config);
    }
  }
  // Where shares have no padding 2 (H-1)/H 4 bytes a parameter and island: each stage and expert once.
  const auto expect_formula = [](const Config& config, int64_t params) {
    EXPECT_EQ(sent_across(config).bytes, 2 /*islands*/ * 6 /*meetings*/ * 4 * params)
        << text_of_islands(config);
  };
  const int64_t params = sent_across(in_islands(tree_islands("llama", "sgd", 1), {})).params;
  expect_formula(in_islands(tree_islands("llama", "sgd", 1), {.dp = 2, .pp = 2}), params);
  expect_formula(in_islands(tree_islands("llama", "sgd", 1), {.dp = 2, .cp = 2}), params + params % 2);
  const int64_t of_experts = sent_across(in_islands(tree_islands("moe", "sgd", 1), {})).params;
  expect_formula(in_islands(tree_islands("moe", "sgd", 1), {.dp = 4, .group = 2, .ep = 2}), of_experts);
}

// Steps, and a meeting, after a checkpoint between two meetings.
TEST(TwoSpeedEveryAxis, ResumesToTheSameBitsBetweenTwoMeetings) {
  const std::string folder = temporary_path("two_speed_layouts");
  const auto resume = [&](const Config& before, const Config& after) {
    std::filesystem::remove_all(folder);
    Config first = before;
    first.train.steps = 4;
    const auto save = [&](Training& training, TrainState& state, World& world) {
      write_checkpoint_at(
          system_env(), world.all(), folder,
          {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
    };
    const auto load = [&](Training& training, TrainState& state, World&) {
      const Checkpoint checkpoint = Checkpoint::open(system_env(), folder);
      training.load(checkpoint);
      state = TrainState::from_json(checkpoint.state());
      training.publish(state);
    };
    run_layout(first, {.end = save});
    return run_layout(after, {.begin = load});
  };
  const auto expect_resumed = [&](const VerifyRun& got, const VerifyRun& whole, const std::string& what) {
    EXPECT_EQ(got.losses, (std::vector<double>{whole.losses[4], whole.losses[5]})) << what;
    EXPECT_EQ(got.grad_norms, (std::vector<double>{whole.grad_norms[4], whole.grad_norms[5]})) << what;
    EXPECT_EQ(got.weights, whole.weights) << what;
    EXPECT_EQ(got.state, whole.state) << what;
  };
  // The schedule is that of all six steps, whichever are run.
  for (const auto& [family, layout] : kEveryAxis)
    for (const int zero : {0, 3}) {
      Config config = in_islands(tree_islands(family, "adamw"), layout);
      config.schedule.decay = "constant";
      config.parallel.zero_stage = zero;
      expect_resumed(resume(config, config), run_layout(config), text_of_islands(config));
    }
  // In another layout of the same islands, where that has the same bits.
  Config config = tree_islands("gpt2", "adamw");
  config.schedule.decay = "constant";
  config.model.vocab_size = 400;  // the two stages that have the tied table share it out otherwise
  const Config one = in_islands(config, {});
  for (const int zero : {0, 1}) {
    const Config pipeline = in_islands(config, {.dp = 4, .group = 2, .pp = 2, .zero = zero});
    expect_resumed(resume(pipeline, one), run_layout(one), "from a pipeline to one process a replica group");
    expect_resumed(resume(one, pipeline), run_layout(one), "from one process a replica group to a pipeline");
  }
}

// Law 7.
TEST(TwoSpeedEveryAxis, ThePlanIsTheMeasuredPeak) {
  for (const char* compute : {"f32", "bf16"})
    for (const int zero : {0, 3})
      for (const IslandLayout& layout :
           {IslandLayout{.dp = 4, .group = 2}, IslandLayout{.dp = 4, .group = 2, .cp = 2},
            IslandLayout{.dp = 2, .cp = 2, .tp = 2}}) {
        Config config = in_islands(tree_islands("llama", "adamw", 1), layout);
        config.train.steps = 2;
        config.local_sgd.compression = std::string(compute) == "bf16" ? "int8" : "none";
        if (zero == 0 && layout.cp == 2) {
          config.parallel.reduce = "fast";
          config.compression.method = "int8";
        }
        config.precision.compute = compute;
        config.parallel.zero_stage = zero;
        run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                     const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                     EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total)
                         << text_of_islands(config);
                   }});
      }
}

// What a rank that leaves out a group would do.
TEST(TwoSpeedEveryAxis, AForgottenGroupShows) {
  const auto lay_out_with = [](const std::function<void(IslandGroups&, Mesh&)>& fault) {
    return LayoutHooks{.lay_out = [fault](Training& training, Mesh& mesh) {
      const int ranks = mesh.size(Axis::dp) / 2;
      IslandGroups groups = make_islands(mesh.world(), mesh.shape(), ranks);
      if (mesh.size(Axis::ep) > 1) groups.experts = make_island_experts(mesh.world(), mesh.shape(), ranks);
      fault(groups, mesh);
      Group* copies = groups.experts.get();
      training.split_islands(std::move(groups));
      if (copies != nullptr)
        training.split_experts(mesh.group(Axis::ep), *copies, mesh.shape().expert_parts());
      training.share_sequences(mesh.group(Axis::cp));
    }};
  };
  const auto caught = [&](const std::string& family, const IslandLayout& layout,
                          const std::function<void(IslandGroups&, Mesh&)>& fault) {
    const Config config = in_islands(tree_islands(family, "sgd"), layout);
    return is_caught(config, run_layout(one_process(config)), lay_out_with(fault), 10 * kTolerance);
  };
  const auto none = [](IslandGroups&, Mesh&) {};
  EXPECT_FALSE(caught("llama", {.dp = 2, .cp = 2}, none)) << "as it should be";
  EXPECT_FALSE(caught("moe", {.dp = 8, .group = 4, .ep = 2}, none)) << "as it should be";
  EXPECT_TRUE(caught("moe", {.dp = 8, .group = 4, .ep = 2}, [](IslandGroups& groups, Mesh& mesh) {
    groups.experts =
        mesh.world().make_group(mesh.shape().peers(mesh.world().rank(), {Axis::edp}), "all copies");
  })) << "experts' gradients summed over all replica groups";
  EXPECT_TRUE(caught("moe", {.dp = 8, .group = 4, .ep = 2}, [](IslandGroups& groups, Mesh&) {
    groups.experts = make_single_group();
  })) << "experts' gradients not summed in the replica group";
  const auto swap_parts = [](IslandGroups& groups, Mesh& mesh) {  // parts of other sequences meet
    std::vector<int> inner;
    const int own = mesh.world().rank() % 2;
    for (const int rank : {0, 1, 2, 3})
      if (rank % 2 == own) inner.push_back(rank);
    groups.inner = mesh.world().make_group(inner, "wrong replica group");
  };
  EXPECT_TRUE(caught("llama", {.dp = 2, .cp = 2}, swap_parts)) << "a replica group without its ranks of cp";
}

}  // namespace
}  // namespace athanor
