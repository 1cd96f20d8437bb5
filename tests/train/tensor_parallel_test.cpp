// Tensor and sequence parallelism: faults that its comparison with one process must see, checkpoints, plans. The
// comparison itself is rows of train/layouts.
#include <gtest/gtest.h>

#include "athanor/engine/memory_plan.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "checkpoint/content.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::tensor_parallel_test {
namespace {

struct Fault {
  std::function<void(Sharding&)> change_table;
  std::function<void(Training&, Group&)> prepare = {};  // before anything is allocated
};

// The comparison sees what it is there to see.
TEST(TensorParallel, PlantedFaultsAreCaught) {
  const Config config = uneven("gpt2", "sgd"), grouped = uneven("llama", "sgd");
  const VerifyRun &one = run_once(one_process(config)), &one_grouped = run_once(one_process(grouped));
  const auto set = [](const std::string& module, const std::function<void(ShardingRow&)>& change) {
    return [=](Sharding& table) {
      for (ShardingRow& row : table)
        if (row.module == module) change(row);
    };
  };
  const auto expect_caught = [&](const char* fault, const Config& which, const Axes& layout,
                                 const Fault& planted) {
    Sharding table = sharding_of(which.model, layout.sp);
    planted.change_table(table);
    const auto prepare = [&](Training& training) {
      if (planted.prepare) planted.prepare(training, *training.groups().tensor);
    };
    EXPECT_TRUE(is_caught(in_axes(which, layout), &which == &config ? one : one_grouped,
                          {.sharding = &table, .declared = prepare}, 100 * kTolerance))
        << fault << " went unseen";
  };
  const auto whole = [](ShardingRow& row) { row.split = Split::none; };
  expect_caught("norm gradients that are not summed under sp", config, {.tp = 2, .sp = true},
                {.change_table = set("blocks.*.mlp_norm", whole)});
  expect_caught("the last norm's gradient likewise", config, {.tp = 2, .sp = true},
                {.change_table = set("norm", whole)});
  expect_caught("dropout that takes its tokens for all", config, {.tp = 2, .sp = true},
                {.change_table = set("blocks.*.attn_dropout", whole)});
  expect_caught("positions that every rank adds to", config, {.tp = 2},
                {.change_table = set("positions", whole)});
  expect_caught("a gradient that is not summed before the projections", config, {.tp = 2},
                {.change_table = set("blocks.*.mlp", [](ShardingRow& row) { row.input = nullptr; })});
  expect_caught("a head whose input's gradient is not summed", config, {.tp = 2},
                {.change_table = set("head", [](ShardingRow& row) { row.input = nullptr; })});
  expect_caught(
      "a gather whose gradient is not summed", config, {.tp = 2, .sp = true},
      {.change_table = set("blocks.*.attn", [](ShardingRow& row) { row.input = gather_to_whole; })});
  expect_caught(
      "values that are cut in another order than queries", grouped, {.tp = 2},
      {.change_table = set("blocks.*.attn.v", whole), .prepare = [](Training& training, Group& group) {
         for (const auto& param : training.model->params())
           if (param->name().ends_with("attn.v.weight"))
             param->shard(
                 {.dim = 0, .axis = "tp", .rank = group.size() - 1 - group.rank(), .size = group.size()});
       }});
}

std::string save(const std::string& folder, const Training& training, const TrainState& state, Group& world) {
  return write_checkpoint(
      system_env(), world, folder,
      {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
}

TEST(TensorParallel, ACheckpointKnowsNoLayout) {
  Config config = uneven("gpt2", "adamw");
  config.train.steps = 2;
  const TestFolder folder;
  std::vector<std::string> digests;
  // Each layout goes on from the first one's checkpoint and writes it again, untouched.
  const Axes layouts[] = {{.tp = 2, .sp = true}, {}, {.tp = 4}, {.dp = 2, .tp = 2, .sp = true}, {.dp = 3}};
  for (const Axes& layout : layouts) {
    const std::string target = folder.file(text_of(layout));
    LayoutHooks hooks;
    if (!digests.empty())
      hooks.begin = [&](Training& training, TrainState& state, World&) {
        const Checkpoint first =
            Checkpoint::open(system_env(), folder.file(text_of(layouts[0])) + "/step_00000002");
        training.load(first);
        state = TrainState::from_json(first.state());
      };
    hooks.end = [&](Training& training, TrainState& state, World& world) {
      save(target, training, state, world.all());
    };
    run_layout(in_axes(config, layout), hooks);
    digests.push_back(Checkpoint::open(system_env(), target + "/step_00000002").digest());
    EXPECT_EQ(digests.back(), digests[0]) << text_of(layout);
  }
}

// Law 7: the null device predicts what a rank that has a part of the model needs.
TEST(TensorParallel, TheMemoryPlanEqualsTheMeasuredPeak) {
  for (const char* family : {"llama", "gpt2"})
    for (const Axes& layout :
         {Axes{.tp = 2}, Axes{.tp = 4, .sp = true}, Axes{.dp = 2, .tp = 2, .sp = true}}) {
      Config config = uneven(family, "adamw");
      config.train.steps = 2;
      config = in_axes(config, layout);
      run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                   const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                   EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total)
                       << family << " " << text_of(layout) << " rank " << world.rank();
                 }});
    }
}

TEST(TensorParallel, ResumeIsBitwise) {
  Config config = uneven("llama", "adamw");
  config.schedule.decay = "constant";
  config.train.steps = 4;
  Config half = config;
  half.train.steps = 2;
  const Axes layout{.tp = 2, .sp = true};
  const TestFolder folder;
  const VerifyRun whole = run_layout(in_axes(config, layout));
  run_layout(in_axes(half, layout), {.end = [&](Training& training, TrainState& state, World& world) {
               save(folder.path(), training, state, world.all());
             }});
  const VerifyRun resumed =
      run_layout(in_axes(config, layout), {.begin = [&](Training& training, TrainState& state, World&) {
                   const Checkpoint checkpoint = Checkpoint::open(system_env(), folder.file("step_00000002"));
                   training.load(checkpoint);
                   state = TrainState::from_json(checkpoint.state());
                 }});
  EXPECT_EQ(resumed.weights, whole.weights);
  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 2, whole.losses.end()));
  EXPECT_EQ(resumed.grad_norms, std::vector<double>(whole.grad_norms.begin() + 2, whole.grad_norms.end()));
}

}  // namespace
}  // namespace athanor::tests::tensor_parallel_test
