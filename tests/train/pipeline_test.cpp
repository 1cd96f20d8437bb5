// How a model is partitioned into stages. That those train to the bits of one process is a row of train/layouts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/engine/model_stage.h"
#include "athanor/layout/stages.h"
#include "train/layout_run.h"

namespace athanor::tests::pipeline_test {
namespace {

Config pipeline_config(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.num_hidden_layers = 7;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  return config;
}

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
      for (const ModelPart& part : parts) found += part.has(use->unit()) ? 1 : 0;
      EXPECT_EQ(found, 1) << use->use();
    }
  }
}

// The names of the families in the program say in which unit a weight is; the program itself reads no names.
int unit_by_name(const std::string& use, int64_t layers) {
  if (use == "norm" || use == "head") return static_cast<int>(layers) + 1;
  return use.starts_with("blocks.") ? std::stoi(use.substr(7)) + 1 : 0;
}

TEST(Parts, UnitsAreTheEmbeddingTheBlocksAndTheEnd) {
  for (const char* family : {"llama", "gpt2", "moe"})
    for (const bool tied : {false, true}) {
      ModelConfig config = pipeline_config(family, "sgd").model;
      config.tie_word_embeddings = tied;
      const auto model = make_model(config);
      for (const auto& param : model->params()) {
        const std::string& name = param->name();
        EXPECT_EQ(param->unit(), unit_by_name(name.substr(0, name.rfind('.')), config.num_hidden_layers))
            << name;
        EXPECT_EQ(param->is_table(), name.starts_with("embed") || name.starts_with("positions")) << name;
      }
      for (const Weight* use : model->weights())
        EXPECT_EQ(use->unit(), unit_by_name(use->use(), config.num_hidden_layers)) << use->use();
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
}  // namespace athanor::tests::pipeline_test
