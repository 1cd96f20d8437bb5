// Patterns of attention: every layout reads the mask as data, for its own heads and tokens.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::attention_pattern_test {
namespace {

// Other pairs for each pair of heads, which in llama share keys, and for the layers.
constexpr const char* kPattern =
    "layers 0 heads 0-1: causal + window:3; layers 0: causal + global:1 + dilated:2,3; causal + window:5 + "
    "strided:4";

Config sparse(Config config) {
  config.model.attention_pattern = kPattern;
  config.train.steps = 3;
  return config;
}

std::vector<LayoutCase> bitwise() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"}) {
    Config config = sparse(tiny(family));
    config.parallel.reduce = "tree";
    config.model.num_hidden_layers = 4;
    for (const Axes& axes : {Axes{.pp = 2},
                             {.dp = 2, .zero = 1},
                             {.dp = 5, .zero = 3},
                             {.dp = 2, .pp = 2, .schedule = "zb-v"},
                             {.recompute = "full"},
                             {.dp = 2, .recompute = "selective"}})
      table.as_one(family, config, axes);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(PatternsBitwise, LayoutTest, testing::ValuesIn(bitwise()), layout_case_name);

std::vector<LayoutCase> nearly() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"})
    for (const bool documents : {false, true}) {
      Config config = sparse(uneven(family, "adamw"));
      config.data.document_mask = documents;
      for (const Axes& axes : {Axes{.tp = 2, .sp = true},
                               {.tp = 2, .pp = 2},
                               {.cp = 3},
                               {.dp = 2, .cp = 2},
                               {.tp = 2, .cp = 2},
                               {.cp = 2, .cp_method = "ulysses"},
                               {.tp = 2, .cp = 2, .cp_method = "ulysses"}})
        table.as_one(fmt::format("{}{}", family, documents ? " documents" : ""), config, axes,
                     within(kTolerance));
    }
  Config experts = sparse(eight_experts(tiny("moe")));
  experts.train.global_batch_size = 8;
  experts.precision.compute = "f32";
  experts.optimizer.name = "sgd";
  experts.optimizer.lr = 1e-2;
  for (const Axes& axes : {Axes{.dp = 2, .ep = 2}, {.dp = 2, .tp = 2}})
    table.as_one("moe", experts, axes, within(kTolerance));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(PatternsNearly, LayoutTest, testing::ValuesIn(nearly()), layout_case_name);

std::vector<LayoutCase> planned() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"})
    for (const Axes& axes : {Axes{}, {.dp = 2, .zero = 3}, {.tp = 2}, {.cp = 2}}) {
      Config config = sparse(tiny(family));
      config.precision.compute = "bf16";
      table.planned(family, in_axes(config, axes));
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Patterns, PlanTest, testing::ValuesIn(planned()), layout_case_name);

// The pattern is no ornament: without it the losses are others.
TEST(AttentionPattern, ChangesWhatIsLearned) {
  for (const char* family : {"llama", "gpt2"}) {
    const Config with = sparse(tiny(family));
    Config without = with;
    without.model.attention_pattern = "causal";
    EXPECT_NE(run(with, 1).steps.back().loss, run(without, 1).steps.back().loss) << family;
  }
}

}  // namespace
}  // namespace athanor::tests::attention_pattern_test
