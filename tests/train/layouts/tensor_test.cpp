// Tensor and sequence parallelism: ranks that share a model.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::tensor_test {
namespace {

constexpr LayoutCheck kAsDrawn{.tolerance = kTolerance, .first_weights = true};

// Three heads of keys and values, for three ranks.
Config in_thirds(Config config) {
  config.model.num_attention_heads = 6;
  config.model.num_key_value_heads = config.model.model_type == "gpt2" ? 6 : 3;
  config.model.head_dim = 4;
  config.model.intermediate_size = 66;
  return config;
}

std::vector<LayoutCase> tensor_ranks() {
  LayoutTable table;
  for (const auto& [family, optimizer] : {std::pair("llama", "adamw"),
                                          {"llama", "sgd"},
                                          {"gpt2", "adamw"},
                                          {"gpt2", "sgd"},
                                          {"moe", "sgd"},
                                          {"moe_bias", "adamw"}}) {
    const bool sgd = std::string(optimizer) == "sgd" && std::string(family) != "moe";
    table.leave_out(sgd ? "AdamW has the same case" : nullptr);
    const std::string label = fmt::format("{} {}", family, optimizer);
    Config config = uneven(family, optimizer);
    for (const Axes& axes : {Axes{.tp = 2},
                             {.tp = 2, .sp = true},
                             {.tp = 4},
                             {.tp = 4, .sp = true},
                             {.dp = 2, .tp = 2, .sp = true},
                             {.dp = 3, .tp = 2}})
      table.as_one(label, config, axes, kAsDrawn);
    for (const Axes& axes : {Axes{.tp = 3}, {.tp = 3, .sp = true}, {.dp = 2, .tp = 3, .sp = true}})
      table.as_one(label + " thirds", in_thirds(config), axes, kAsDrawn);
    config.train.steps = 3;
    for (const char* recompute : {"selective", "full"})
      for (const bool sp : {false, true})
        table.as_one(label, config, {.tp = 2, .sp = sp, .recompute = recompute}, kAsDrawn);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(TensorRanks, LayoutTest, testing::ValuesIn(tensor_ranks()), layout_case_name);

std::vector<LayoutCase> other_models() {
  LayoutTable table;
  Config config = uneven("llama", "sgd");
  config.model.num_key_value_heads = 1;
  config.model.bias = true;
  for (const Axes& axes : {Axes{.tp = 2}, {.tp = 4, .sp = true}})
    table.as_one("one head of keys and values for all ranks", config, axes, kAsDrawn);
  config = uneven("llama", "adamw");
  config.model.tie_word_embeddings = true;
  table.as_one("tied llama", config, {.tp = 4, .sp = true}, kAsDrawn);
  config = uneven("gpt2", "adamw");
  config.model.tie_word_embeddings = false;
  table.as_one("untied gpt2", config, {.tp = 4, .sp = true}, kAsDrawn);
  // Of 41 tokens in eight parts of 6 the last has none.
  config = uneven("llama", "sgd");
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 8;
  config.model.head_dim = 2;
  config.model.intermediate_size = 64;
  table.as_one("an empty part of the vocabulary", config, {.tp = 8, .sp = true}, kAsDrawn);
  for (const char* compute : {"bf16", "f16"}) {
    config = uneven("gpt2", "sgd");
    config.precision.compute = compute;
    config.train.steps = 3;
    for (const bool sp : {false, true})
      table.as_one(compute, config, {.tp = 2, .sp = sp}, {.losses = 1e-2, .norms = 3e-2});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(TensorRanksOfOtherModels, LayoutTest, testing::ValuesIn(other_models()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::tensor_test
