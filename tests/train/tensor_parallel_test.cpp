// Law 1 for tensor and sequence parallelism: ranks that share a model compute what one process computes.
#include <gtest/gtest.h>

#include <ostream>

#include "athanor/parallel/collective_ops.h"
#include "athanor/train/memory_plan.h"
#include "checkpoint/content.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

// Three heads of keys and values, for three ranks.
Config in_thirds(Config config) {
  config.model.num_attention_heads = 6;
  config.model.num_key_value_heads = config.model.model_type == "gpt2" ? 6 : 3;
  config.model.head_dim = 4;
  config.model.intermediate_size = 66;
  return config;
}

struct TensorParallelLayout {
  int dp = 1, tp = 1;
  bool sp = false;
};

Config with_layout(Config config, const TensorParallelLayout& layout) {
  config.parallel.dp = layout.dp;
  config.parallel.tp = layout.tp;
  config.parallel.sp = layout.sp;
  return config;
}

std::string name_of(const TensorParallelLayout& layout) {
  return "dp " + std::to_string(layout.dp) + " tp " + std::to_string(layout.tp) + (layout.sp ? " sp" : "");
}

struct TensorParallelCase {
  const char* family;
  const char* optimizer;
};

void PrintTo(const TensorParallelCase& c, std::ostream* out) {
  *out << c.family << " " << c.optimizer;
}

class TensorParallelTest : public ::testing::TestWithParam<TensorParallelCase> {
 protected:
  static void expect_same(const Config& config, const std::vector<TensorParallelLayout>& layouts,
                          double tolerance = kTolerance) {
    const VerifyRun one = run_layout(one_process(config));
    for (const TensorParallelLayout& layout : layouts) {
      const VerifyRun many = run_layout(with_layout(config, layout));
      EXPECT_EQ(many.first_weights, one.first_weights) << "the same weights in any layout";
      const LayoutDifference difference = compare(many, one);
      EXPECT_LE(difference.worst(), tolerance)
          << name_of(layout) << ": " << difference.gradient.where << " " << difference.weight.where;
    }
  }
};

TEST_P(TensorParallelTest, EveryLayoutComputesWhatOneProcessComputes) {
  const Config config = uneven(GetParam().family, GetParam().optimizer);
  expect_same(config,
              {{1, 2, false}, {1, 2, true}, {1, 4, false}, {1, 4, true}, {2, 2, true}, {3, 2, false}});
  expect_same(in_thirds(config), {{1, 3, false}, {1, 3, true}, {2, 3, true}});
}

TEST_P(TensorParallelTest, RecomputeGoesWithIt) {
  Config config = uneven(GetParam().family, GetParam().optimizer);
  config.train.steps = 3;
  for (const char* recompute : {"selective", "full"}) {
    config.parallel.recompute = recompute;
    expect_same(config, {{1, 2, false}, {1, 2, true}});
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorParallelTest,
    ::testing::Values(TensorParallelCase{"llama", "adamw"}, TensorParallelCase{"llama", "sgd"},
                      TensorParallelCase{"gpt2", "adamw"}, TensorParallelCase{"gpt2", "sgd"},
                      TensorParallelCase{"moe", "sgd"}, TensorParallelCase{"moe_bias", "adamw"}),
    [](const auto& each) { return std::string(each.param.family) + "_" + each.param.optimizer; });

class OtherModels : public TensorParallelTest {};

TEST_F(OtherModels, OneHeadOfKeysAndValuesIsSharedByAllRanks) {
  Config config = uneven("llama", "sgd");
  config.model.num_key_value_heads = 1;
  config.model.bias = true;
  expect_same(config, {{1, 2, false}, {1, 4, true}});
}

TEST_F(OtherModels, TiedLlamaAndUntiedGpt2) {
  Config config = uneven("llama", "adamw");
  config.model.tie_word_embeddings = true;
  expect_same(config, {{1, 4, true}});
  config = uneven("gpt2", "adamw");
  config.model.tie_word_embeddings = false;
  expect_same(config, {{1, 4, true}});
}

// Of 41 tokens in eight parts of 6 the last has none.
TEST_F(OtherModels, APartOfTheVocabularyMayBeEmpty) {
  Config config = uneven("llama", "sgd");
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 8;
  config.model.head_dim = 2;
  config.model.intermediate_size = 64;
  expect_same(config, {{1, 8, true}});
}

TEST_F(OtherModels, HalfPrecisionIsNear) {
  for (const char* compute : {"bf16", "f16"}) {
    Config config = uneven("gpt2", "sgd");
    config.precision.compute = compute;
    config.train.steps = 3;
    const VerifyRun one = run_layout(one_process(config));
    for (const bool sp : {false, true}) {
      const VerifyRun two = run_layout(with_layout(config, {1, 2, sp}));
      for (size_t i = 0; i < one.losses.size(); ++i) {
        EXPECT_NEAR(two.losses[i], one.losses[i], 1e-2 * one.losses[i]) << compute;
        EXPECT_NEAR(two.grad_norms[i], one.grad_norms[i], 3e-2 * one.grad_norms[i]) << compute;
      }
    }
  }
}

struct Fault {
  std::function<void(Sharding&)> change_table;
  std::function<void(Training&, Group&)> prepare = {};
};

// The comparison sees what it is there to see.
TEST_F(OtherModels, PlantedFaultsAreCaught) {
  const Config config = uneven("gpt2", "sgd"), grouped = uneven("llama", "sgd");
  const VerifyRun one = run_layout(one_process(config)), one_grouped = run_layout(one_process(grouped));
  const auto set = [](const std::string& module, const std::function<void(ShardingRow&)>& change) {
    return [=](Sharding& table) {
      for (ShardingRow& row : table)
        if (row.module == module) change(row);
    };
  };
  const auto expect_caught = [&](const char* fault, const Config& which, const TensorParallelLayout& layout,
                                 const Fault& planted) {
    const auto lay_out = [&](Training& training, Mesh& mesh) {
      Sharding table = sharding_of(which.model, layout.sp);
      planted.change_table(table);
      training.split(table, mesh.group(Axis::tp));
      if (planted.prepare) planted.prepare(training, mesh.group(Axis::tp));
    };
    EXPECT_TRUE(is_caught(with_layout(which, layout), &which == &config ? one : one_grouped,
                          {.lay_out = lay_out}, 100 * kTolerance))
        << fault << " went unseen";
  };
  const auto whole = [](ShardingRow& row) { row.split = Split::none; };
  expect_caught("norm gradients that are not summed under sp", config, {1, 2, true},
                {.change_table = set("blocks.*.mlp_norm", whole)});
  expect_caught("the last norm's gradient likewise", config, {1, 2, true},
                {.change_table = set("norm", whole)});
  expect_caught("dropout that takes its tokens for all", config, {1, 2, true},
                {.change_table = set("blocks.*.attn_dropout", whole)});
  expect_caught("positions that every rank adds to", config, {1, 2, false},
                {.change_table = set("positions", whole)});
  expect_caught("a gradient that is not summed before the projections", config, {1, 2, false},
                {.change_table = set("blocks.*.mlp", [](ShardingRow& row) { row.input = nullptr; })});
  expect_caught("a head whose input's gradient is not summed", config, {1, 2, false},
                {.change_table = set("head", [](ShardingRow& row) { row.input = nullptr; })});
  expect_caught(
      "a gather whose gradient is not summed", config, {1, 2, true},
      {.change_table = set("blocks.*.attn", [](ShardingRow& row) { row.input = gather_to_whole; })});
  expect_caught(
      "values that are cut in another order than queries", grouped, {1, 2, false},
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

TEST_F(OtherModels, ACheckpointKnowsNoLayout) {
  Config config = uneven("gpt2", "adamw");
  config.train.steps = 2;
  const TestFolder folder;
  std::vector<std::string> digests;
  // Each layout goes on from the first one's checkpoint and writes it again, untouched.
  const TensorParallelLayout layouts[] = {{1, 2, true}, {1, 1}, {1, 4, false}, {2, 2, true}, {3, 1}};
  for (const TensorParallelLayout& layout : layouts) {
    const std::string target = folder.file(name_of(layout));
    LayoutHooks hooks;
    if (!digests.empty())
      hooks.begin = [&](Training& training, TrainState& state, World&) {
        const Checkpoint first =
            Checkpoint::open(system_env(), folder.file(name_of(layouts[0])) + "/step_00000002");
        training.load(first);
        state = TrainState::from_json(first.state());
      };
    hooks.end = [&](Training& training, TrainState& state, World& world) {
      save(target, training, state, world.all());
    };
    run_layout(with_layout(config, layout), hooks);
    digests.push_back(Checkpoint::open(system_env(), target + "/step_00000002").digest());
    EXPECT_EQ(digests.back(), digests[0]) << name_of(layout);
  }
}

// Law 7: the null device predicts what a rank that has a part of the model needs.
TEST_F(OtherModels, TheMemoryPlanEqualsTheMeasuredPeak) {
  for (const char* family : {"llama", "gpt2"})
    for (const TensorParallelLayout& layout :
         {TensorParallelLayout{1, 2, false}, TensorParallelLayout{1, 4, true},
          TensorParallelLayout{2, 2, true}}) {
      Config config = uneven(family, "adamw");
      config.train.steps = 2;
      config = with_layout(config, layout);
      run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                   const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                   EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total)
                       << family << " " << name_of(layout) << " rank " << world.rank();
                 }});
    }
}

TEST_F(OtherModels, ResumeIsBitwise) {
  Config config = uneven("llama", "adamw");
  config.schedule.decay = "constant";
  config.train.steps = 4;
  Config half = config;
  half.train.steps = 2;
  const TensorParallelLayout layout{1, 2, true};
  const TestFolder folder;
  const VerifyRun whole = run_layout(with_layout(config, layout));
  run_layout(with_layout(half, layout), {.end = [&](Training& training, TrainState& state, World& world) {
               save(folder.path(), training, state, world.all());
             }});
  const VerifyRun resumed =
      run_layout(with_layout(config, layout), {.begin = [&](Training& training, TrainState& state, World&) {
                   const Checkpoint checkpoint = Checkpoint::open(system_env(), folder.file("step_00000002"));
                   training.load(checkpoint);
                   state = TrainState::from_json(checkpoint.state());
                 }});
  EXPECT_EQ(resumed.weights, whole.weights);
  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 2, whole.losses.end()));
  EXPECT_EQ(resumed.grad_norms, std::vector<double>(whole.grad_norms.begin() + 2, whole.grad_norms.end()));
}

}  // namespace
}  // namespace athanor
