// Law 1 for pipelines: a model cut into stages, by any schedule, trains to the bits of one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/train/model_stage.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

struct Cut {
  std::string schedule;
  int64_t ranks;
  std::vector<int64_t> stage_layers;  // empty: even
};

Config pipeline_config(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.num_hidden_layers = 7;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  return config;
}

void expect_bits_of(const VerifyRun& one, Config config, const Cut& cut) {
  ParallelConfig& p = config.parallel;
  p.schedule = cut.schedule;
  p.pp = cut.ranks;
  p.stage_layers = cut.stage_layers;
  const LayoutDifference found = compare(run_layout(config), one);
  EXPECT_TRUE(found.bitwise) << fmt::format("{}, {} ranks, {}, recompute {}: {}", cut.schedule, cut.ranks,
                                            config.precision.compute, p.recompute, found.worst());
}

const std::vector<Cut> kCuts = {{"gpipe", 2, {}},      {"1f1b", 3, {}},           {"interleaved", 2, {}},
                                {"bfs", 3, {}},        {"zb-h1", 3, {}},          {"zb-v", 2, {}},
                                {"dualpipe-v", 3, {}}, {"1f1b", 4, {0, 5, 1, 1}}, {"zb-h1", 2, {6, 1}},
                                {"1f1b", 2, {7, 0}},   {"zb-v", 2, {1, 3, 2, 1}}};

class PipelineTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PipelineTest, EveryScheduleTrainsToTheBitsOfOneProcess) {
  const auto& [family, optimizer] = GetParam();
  Config config = pipeline_config(family, optimizer);
  for (const char* compute : {"f32", "bf16"}) {
    config.precision.compute = compute;
    const VerifyRun one = run_layout(one_process(config));
    for (const Cut& cut : kCuts) expect_bits_of(one, config, cut);
    for (const char* recompute : {"full", "selective", "group:2", "full*3,selective*2,none"}) {
      config.parallel.recompute = recompute;
      for (const char* schedule : {"zb-h1", "zb-v"}) expect_bits_of(one, config, {schedule, 2, {}});
    }
    config.parallel.recompute = "none";
  }
}

INSTANTIATE_TEST_SUITE_P(All, PipelineTest,
                         ::testing::Values(std::pair{"llama", "adamw"}, std::pair{"llama", "sgd"},
                                           std::pair{"gpt2", "adamw"}, std::pair{"gpt2", "sgd"}),
                         [](const auto& each) {
                           return fmt::format("{}_{}", each.param.first, each.param.second);
                         });

TEST(Parts, LayersAreCutEvenly) {
  using ::testing::ElementsAre;
  EXPECT_THAT(even_stage_layers(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(even_stage_layers(9, 4), ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(even_stage_layers(11, 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(even_stage_layers(7, 2), ElementsAre(4, 3));
  EXPECT_THAT(even_stage_layers(5, 1), ElementsAre(5));
  EXPECT_THROW(even_stage_layers(3, 4), ConfigError);
  EXPECT_THROW(even_stage_layers(3, 0), ConfigError);
  EXPECT_THROW(cut_model({2, 0, 2}), ConfigError);
  EXPECT_THROW(cut_model({2, -1}), ConfigError);
  EXPECT_EQ(cut_model({2, 3})[1], (ModelPart{2, 5, false, true}));
}

TEST(Parts, EveryUseIsInExactlyOnePart) {
  for (const char* family : {"llama", "gpt2"}) {
    const auto model = make_model(pipeline_config(family, "sgd").model);
    const auto parts = cut_model({3, 3, 1});
    for (const Weight* use : model->weights()) {
      int found = 0;
      for (const ModelPart& part : parts) found += part.has(use->use()) ? 1 : 0;
      EXPECT_EQ(found, 1) << use->use();
    }
  }
}

// Parameters of other parts get no memory, and the plan counts from the whole model's first block.
TEST(Parts, OnlyWhatIsKeptIsAllocated) {
  const Config config = pipeline_config("gpt2", "sgd");
  const auto whole = make_model(config.model);
  const auto parts = cut_model({3, 3, 1});
  int64_t floats = 0, tied = 0;
  for (const ModelPart& part : parts) {
    Engine engine;
    const auto model = make_model(config.model);
    model->keep(std::vector{part});
    model->allocate(engine.arena, Dtype::f32, true);
    int64_t here = 0;
    for (const auto& param : model->params()) {
      here += param->numel();
      if (param->name() == "embed.weight") tied = param->numel();
    }
    EXPECT_LE(engine.arena.usage().current[static_cast<size_t>(Category::parameters)],
              static_cast<uint64_t>(here) * 4 + 64 * model->params().size());
    EXPECT_EQ(model->flops_per_token(12), whole->flops_per_token(12));
    EXPECT_EQ(model->num_params(), whole->num_params());
    floats += here;
  }
  EXPECT_EQ(floats, whole->num_params() + tied);  // the table is on the first and the last rank
}

}  // namespace
}  // namespace athanor
