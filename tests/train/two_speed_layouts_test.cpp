// Local SGD with the other axes: what one replica group computes between two outer steps, what is sent at those, what is
// saved and planned, and faults that must show. That every layout computes what one process for each group computes is rows
// of train/layouts.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/train/layout_walk.h"
#include "athanor/train/memory_plan.h"
#include "support/temporary_folder.h"
#include "train/layouts/layout_case.h"

namespace athanor {
namespace {

Config tree_islands(const std::string& family, const std::string& optimizer, int64_t every = 3) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  if (config.model.experts > 0) config.model.experts = 8;
  config.train.global_batch = 16;  // eight grains
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside an island: the bits of one process
  config.parallel.sync_every = every;
  return config;
}

std::string text_of_islands(const Config& config) {
  return config.model.family + " " + config.optimizer.name + " groups of " +
         std::to_string(config.parallel.sync_group) + ": " + text_of(config.parallel);
}

const std::vector<std::pair<const char*, Axes>> kEveryAxis = {
    {"gpt2", {.dp = 4, .pp = 2, .group = 2}},
    {"llama", {.dp = 4, .cp = 2, .group = 2}},
    {"moe", {.dp = 4, .ep = 2, .group = 2}},
    {"moe", {.dp = 4, .pp = 2, .ep = 2, .zero = 1, .group = 2}},
};

// Every step, with outer lr 1 and no momentum: the mean of the weights, which for SGD is that of the gradients.
TEST(TwoSpeedEveryAxis, EveryStepWithoutMomentumIsPlainAveraging) {
  for (const auto& [family, layout] : kEveryAxis) {
    Config config = in_axes(tree_islands(family, "sgd", 1), layout);
    config.model.router_aux_loss = config.model.router_z_loss = 0.0;
    config.parallel.outer_lr = 1.0;
    config.parallel.outer_momentum = config.optimizer.momentum = config.optimizer.clip_norm = 0.0;
    const VerifyRun got = run_layout(config);
    Config plain = config;
    plain.parallel.sync_every = 0;
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
    Config config = in_axes(tree_islands(family, "adamw", 12), layout);  // they have not met yet
    if (kind != "none") config.parallel.reduce = "fast";
    config.parallel.compression = kind;
    config.parallel.compression_warmup = 1;
    const VerifyRun many = run_layout(config);
    for (int64_t h = 0; h < 2; ++h) {
      Config alone = config;
      alone.parallel.sync_every = 0;
      alone.parallel.dp = layout.group;
      alone.train.global_batch /= 2;
      const VerifyRun island = run_layout(
          alone, 2,
          [&](int64_t step, int64_t grain, Batch& batch) { batch = make_batch(config, step, 4 * h + grain); },
          alone.train.steps, ranks_of(alone.parallel));
      const std::string own = "island." + std::to_string(h) + ".";
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
    const int64_t every_step = sent_across(in_axes(tree_islands(family, "sgd", 1), layout)).bytes;
    EXPECT_GT(every_step, 0);
    for (const int64_t every : {2, 3, 6}) {
      const Config config = in_axes(tree_islands(family, "sgd", every), layout);
      EXPECT_EQ(sent_across(config).bytes * every, every_step) << every << ": " << text_of_islands(config);
    }
  }
  // Where shares have no padding 2 (H-1)/H 4 bytes a parameter and island: each stage and expert once.
  const auto expect_formula = [](const Config& config, int64_t params) {
    EXPECT_EQ(sent_across(config).bytes, 2 /*islands*/ * 6 /*meetings*/ * 4 * params)
        << text_of_islands(config);
  };
  const int64_t params = sent_across(in_axes(tree_islands("llama", "sgd", 1), {.dp = 2, .group = 1})).params;
  expect_formula(in_axes(tree_islands("llama", "sgd", 1), {.dp = 2, .pp = 2, .group = 1}), params);
  expect_formula(in_axes(tree_islands("llama", "sgd", 1), {.dp = 2, .cp = 2, .group = 1}),
                 params + params % 2);
  const int64_t of_experts =
      sent_across(in_axes(tree_islands("moe", "sgd", 1), {.dp = 2, .group = 1})).params;
  expect_formula(in_axes(tree_islands("moe", "sgd", 1), {.dp = 4, .ep = 2, .group = 2}), of_experts);
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
      Config config = in_axes(tree_islands(family, "adamw"), layout);
      config.schedule.decay = "constant";
      config.parallel.zero = zero;
      expect_resumed(resume(config, config), run_layout(config), text_of_islands(config));
    }
  // In another layout of the same islands, where that has the same bits.
  Config config = tree_islands("gpt2", "adamw");
  config.schedule.decay = "constant";
  config.model.vocab_size = 400;  // the two stages that have the tied table share it out otherwise
  const Config one = in_axes(config, {.dp = 2, .group = 1});
  for (const int zero : {0, 1}) {
    const Config pipeline = in_axes(config, {.dp = 4, .pp = 2, .zero = zero, .group = 2});
    expect_resumed(resume(pipeline, one), run_layout(one), "from a pipeline to one process an island");
    expect_resumed(resume(one, pipeline), run_layout(one), "from one process an island to a pipeline");
  }
}

// Law 7.
TEST(TwoSpeedEveryAxis, ThePlanIsTheMeasuredPeak) {
  for (const char* compute : {"f32", "bf16"})
    for (const int zero : {0, 3})
      for (const Axes& layout : {Axes{.dp = 4, .group = 2}, Axes{.dp = 4, .cp = 2, .group = 2},
                                 Axes{.dp = 2, .tp = 2, .cp = 2, .group = 1}}) {
        Config config = in_axes(tree_islands("llama", "adamw", 1), layout);
        config.train.steps = 2;
        config.parallel.outer_compression = std::string(compute) == "bf16" ? "int8" : "none";
        if (zero == 0 && layout.cp == 2) {
          config.parallel.reduce = "fast";
          config.parallel.compression = "int8";
        }
        config.precision.compute = compute;
        config.parallel.zero = zero;
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
  const auto caught = [&](const std::string& family, const Axes& layout,
                          const std::function<void(IslandGroups&, Mesh&)>& fault) {
    const Config config = in_axes(tree_islands(family, "sgd"), layout);
    return is_caught(config, run_layout(one_process(config)), lay_out_with(fault), 10 * kTolerance);
  };
  const auto none = [](IslandGroups&, Mesh&) {};
  EXPECT_FALSE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, none)) << "as it should be";
  EXPECT_FALSE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, none)) << "as it should be";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](IslandGroups& groups, Mesh& mesh) {
    groups.experts =
        mesh.world().make_group(mesh.shape().peers(mesh.world().rank(), {Axis::edp}), "all copies");
  })) << "experts' gradients summed over all islands";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](IslandGroups& groups, Mesh&) {
    groups.experts = make_single_group();
  })) << "experts' gradients not summed in the island";
  const auto swap_parts = [](IslandGroups& groups, Mesh& mesh) {  // parts of other sequences meet
    std::vector<int> inner;
    const int own = mesh.world().rank() % 2;
    for (const int rank : {0, 1, 2, 3})
      if (rank % 2 == own) inner.push_back(rank);
    groups.inner = mesh.world().make_group(inner, "wrong island");
  };
  EXPECT_TRUE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, swap_parts))
      << "an island without its ranks of cp";
}

}  // namespace
}  // namespace athanor
