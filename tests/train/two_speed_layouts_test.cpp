// Local SGD with the other axes: what one replica group computes between two outer steps, what is sent at those, what is
// saved and planned, and faults that must show. That every layout computes what one process for each group computes is rows
// of train/layouts.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/train/plan/layout_walk.h"
#include "athanor/train/plan/memory_plan.h"
#include "support/temporary_folder.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::two_speed_layouts_test {
namespace {

Config tree_replica_groups(const std::string& family, const std::string& optimizer, int64_t every = 3) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside a replica group: the bits of one process
  config.local_sgd.sync_interval = every;
  return config;
}

std::string text_of_replica_groups(const Config& config) {
  return config.model.model_type + " " + config.optimizer.name + " groups of " +
         std::to_string(config.local_sgd.group_size) + ": " + text_of(config.parallel);
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
    Config config = in_axes(tree_replica_groups(family, "sgd", 1), layout);
    config.model.router_aux_loss_coef = config.model.router_z_loss_coef = 0.0;
    config.local_sgd.outer_lr = 1.0;
    config.local_sgd.outer_momentum = config.optimizer.momentum = config.optimizer.max_grad_norm = 0.0;
    const VerifyRun got = run_layout(config);
    Config plain = config;
    plain.local_sgd.sync_interval = 0;
    const VerifyRun expected = run_layout(plain);
    for (size_t i = 0; i < expected.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-6) << text_of_replica_groups(config);
    for (const auto& [name, values] : expected.weights)
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got.weights.at(name)[i], values[i], 1e-6)
            << name << ", " << text_of_replica_groups(config);
  }
}

// Between two meetings a replica group is a training of its own, on its own micro-batches, in the same layout, compressed or not.
TEST(TwoSpeedEveryAxis, BetweenMeetingsAnReplicaGroupIsATrainingOfItsOwn) {
  const char* const kinds[] = {"int8", "powersgd", "onebit-adam", "bf16"};
  for (size_t i = 0; i < 2 * kEveryAxis.size(); ++i) {
    const auto& [family, layout] = kEveryAxis[i / 2];
    const std::string kind = i % 2 == 0 ? "none" : kinds[i / 2];
    Config config = in_axes(tree_replica_groups(family, "adamw", 12), layout);  // they have not met yet
    if (kind != "none") config.parallel.reduce = "fast";
    config.compression.method = kind;
    config.compression.warmup_steps = 1;
    const VerifyRun many = run_layout(config);
    for (int64_t h = 0; h < 2; ++h) {
      Config alone = config;
      alone.local_sgd.sync_interval = 0;
      alone.parallel.dp = layout.group;
      alone.train.global_batch_size /= 2;
      const VerifyRun replica_group = run_layout(
          alone, 2,
          [&](int64_t step, int64_t micro_batch, Batch& batch) {
            batch = make_batch(config, step, 4 * h + micro_batch);
          },
          alone.train.steps, ranks_of(alone.parallel));
      const std::string own = "replica." + std::to_string(h) + ".";
      for (const auto& [name, values] : replica_group.weights)
        EXPECT_EQ(many.weights.at(own + name), values) << name << ", " << text_of_replica_groups(config);
      for (const auto& [name, values] : replica_group.state)
        EXPECT_EQ(many.state.at(own + name), values) << name << ", " << text_of_replica_groups(config);
      for (const auto& [name, values] : replica_group.gradients)
        EXPECT_EQ(many.gradients.at(own + name), values) << name << ", " << text_of_replica_groups(config);
      if (h == 0) {
        EXPECT_EQ(many.grad_norms, replica_group.grad_norms) << text_of_replica_groups(config);
      }
    }
  }
}

struct Sent {
  int64_t bytes = 0, params = 0;  // across replica groups, by all ranks; of the model
};

Sent sent_across(const Config& config) {
  std::mutex mutex;
  Sent sent;
  run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
               const std::lock_guard lock(mutex);
               sent.bytes += training.replica_groups().across->traffic().total().bytes;
               sent.params = training.model->num_params();
             }});
  return sent;
}

TEST(TwoSpeedEveryAxis, MeetingsSendTheDocumentedBytesOnceInKSteps) {
  for (const auto& [family, layout] : kEveryAxis) {
    const int64_t every_step = sent_across(in_axes(tree_replica_groups(family, "sgd", 1), layout)).bytes;
    EXPECT_GT(every_step, 0);
    for (const int64_t every : {2, 3, 6}) {
      const Config config = in_axes(tree_replica_groups(family, "sgd", every), layout);
      EXPECT_EQ(sent_across(config).bytes * every, every_step)
          << every << ": " << text_of_replica_groups(config);
    }
  }
  // Where shares have no padding 2 (H-1)/H 4 bytes a parameter and replica group: each stage and expert once.
  const auto expect_formula = [](const Config& config, int64_t params) {
    EXPECT_EQ(sent_across(config).bytes, 2 /*replica groups*/ * 6 /*meetings*/ * 4 * params)
        << text_of_replica_groups(config);
  };
  const int64_t params =
      sent_across(in_axes(tree_replica_groups("llama", "sgd", 1), {.dp = 2, .group = 1})).params;
  expect_formula(in_axes(tree_replica_groups("llama", "sgd", 1), {.dp = 2, .pp = 2, .group = 1}), params);
  expect_formula(in_axes(tree_replica_groups("llama", "sgd", 1), {.dp = 2, .cp = 2, .group = 1}),
                 params + params % 2);
  const int64_t of_experts =
      sent_across(in_axes(tree_replica_groups("moe", "sgd", 1), {.dp = 2, .group = 1})).params;
  expect_formula(in_axes(tree_replica_groups("moe", "sgd", 1), {.dp = 4, .ep = 2, .group = 2}), of_experts);
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
      Config config = in_axes(tree_replica_groups(family, "adamw"), layout);
      config.schedule.decay = "constant";
      config.parallel.zero_stage = zero;
      expect_resumed(resume(config, config), run_layout(config), text_of_replica_groups(config));
    }
  // In another layout of the same replica groups, where that has the same bits.
  Config config = tree_replica_groups("gpt2", "adamw");
  config.schedule.decay = "constant";
  config.model.vocab_size = 400;  // the two stages that have the tied table share it out otherwise
  const Config one = in_axes(config, {.dp = 2, .group = 1});
  for (const int zero : {0, 1}) {
    const Config pipeline = in_axes(config, {.dp = 4, .pp = 2, .zero = zero, .group = 2});
    expect_resumed(resume(pipeline, one), run_layout(one), "from a pipeline to one process a replica group");
    expect_resumed(resume(one, pipeline), run_layout(one), "from one process a replica group to a pipeline");
  }
}

// Law 7.
TEST(TwoSpeedEveryAxis, ThePlanIsTheMeasuredPeak) {
  for (const char* compute : {"f32", "bf16"})
    for (const int zero : {0, 3})
      for (const Axes& layout : {Axes{.dp = 4, .group = 2}, Axes{.dp = 4, .cp = 2, .group = 2},
                                 Axes{.dp = 2, .tp = 2, .cp = 2, .group = 1}}) {
        Config config = in_axes(tree_replica_groups("llama", "adamw", 1), layout);
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
                         << text_of_replica_groups(config);
                   }});
      }
}

// What a rank that leaves out a group would do.
TEST(TwoSpeedEveryAxis, AForgottenGroupShows) {
  const auto lay_out_with = [](const std::function<void(ReplicaGroups&, Mesh&)>& fault) {
    return LayoutHooks{.lay_out = [fault](Training& training, Mesh& mesh) {
      const int ranks = mesh.size(Axis::dp) / 2;
      ReplicaGroups groups = make_replica_groups(mesh.world(), mesh.shape(), ranks);
      if (mesh.size(Axis::ep) > 1)
        groups.experts = make_replica_group_experts(mesh.world(), mesh.shape(), ranks);
      fault(groups, mesh);
      Group* copies = groups.experts.get();
      training.split_replica_groups(std::move(groups));
      if (copies != nullptr)
        training.split_experts(mesh.group(Axis::ep), *copies, mesh.shape().expert_parts());
      training.share_sequences(mesh.group(Axis::cp));
    }};
  };
  const auto caught = [&](const std::string& family, const Axes& layout,
                          const std::function<void(ReplicaGroups&, Mesh&)>& fault) {
    const Config config = in_axes(tree_replica_groups(family, "sgd"), layout);
    return is_caught(config, run_layout(one_process(config)), lay_out_with(fault), 10 * kTolerance);
  };
  const auto none = [](ReplicaGroups&, Mesh&) {};
  EXPECT_FALSE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, none)) << "as it should be";
  EXPECT_FALSE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, none)) << "as it should be";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](ReplicaGroups& groups, Mesh& mesh) {
    groups.experts =
        mesh.world().make_group(mesh.shape().peers(mesh.world().rank(), {Axis::edp}), "all copies");
  })) << "experts' gradients summed over all replica groups";
  EXPECT_TRUE(caught("moe", {.dp = 8, .ep = 2, .group = 4}, [](ReplicaGroups& groups, Mesh&) {
    groups.experts = make_single_group();
  })) << "experts' gradients not summed in the replica group";
  const auto swap_parts = [](ReplicaGroups& groups, Mesh& mesh) {  // parts of other sequences meet
    std::vector<int> inner;
    const int own = mesh.world().rank() % 2;
    for (const int rank : {0, 1, 2, 3})
      if (rank % 2 == own) inner.push_back(rank);
    groups.inner = mesh.world().make_group(inner, "wrong replica group");
  };
  EXPECT_TRUE(caught("llama", {.dp = 2, .cp = 2, .group = 1}, swap_parts))
      << "a replica group without its ranks of cp";
}

}  // namespace
}  // namespace athanor::tests::two_speed_layouts_test
