// Optimizers beside AdamW and SGD in layouts: LAMB, whose norms are of whole logical tensors, Adam without bias
// correction, and groups of parameters with rates and decays of their own.
#include <fmt/format.h>

#include "support/temporary_folder.h"
#include "train/layouts/layout_case.h"
#include "train/wide_training.h"

namespace athanor::tests::optimizers_test {
namespace {

Config on_the_tree(Config config) {
  config.model.num_hidden_layers = 4;
  config.parallel.reduce = "tree";
  config.train.steps = 4;
  return config;
}

Config with_lamb(const char* family, const char* compute) {
  return on_the_tree(wide({family, compute, 0.1, "lamb", "none"}));
}

// Rates and decays that differ between tensors of one block, with a first match that hides later ones.
Config with_groups(Config config) {
  config.optimizer.group = {{.match = "*.q.weight", .lr_ratio = 0.25},
                            {.match = "*norm*.weight", .lr_ratio = 2.0, .weight_decay = 0.3},
                            {.match = "blocks.1.*", .lr_ratio = 0.5, .weight_decay = 0.0}};
  return config;
}

std::vector<LayoutCase> lamb() {
  LayoutTable table;
  for (const auto& [family, compute] : {std::pair("llama", "f32"), {"gpt2", "bf16"}, {"moe_bias", "f32"}}) {
    const Config config = with_lamb(family, compute);
    const std::string label = fmt::format("{} {}", family, compute);
    for (const Axes& axes : {Axes{.dp = 2},
                             {.dp = 2, .zero = 1},
                             {.dp = 3, .zero = 2},
                             {.dp = 3, .zero = 3},
                             {.dp = 4, .zero = 3, .shard = 2},
                             {.pp = 2, .schedule = "zb-v"},
                             {.dp = 2, .pp = 2, .zero = 1}})
      table.as_one(label, config, axes);
    Config disk = config;
    disk.train.runs = temporary_path("lamb_layouts");
    disk.offload.optimizer = disk.offload.gradients = "disk";
    table.beside(label + " offloaded", in_axes(disk, {.dp = 2, .zero = 2}), one_process(config), {},
                 "dp2_zero2");
    Config eight = config;
    eight.optimizer.state = "8bit";
    table.as_one(label + " 8bit", eight, {.dp = 2, .zero = 3});
  }
  for (const char* family : {"llama", "gpt2", "moe"})
    for (const Axes& axes : {Axes{.tp = 2}, {.dp = 2, .tp = 2, .zero = 1, .sp = true}, {.tp = 4}})
      table.as_one(family, uneven(family, "lamb"), axes, within(kTolerance));
  Config experts = uneven("moe_bias", "lamb");
  experts.model.num_experts = 8;
  experts.train.global_batch_size = 8;
  for (const Axes& axes : {Axes{.dp = 2, .ep = 2}, {.dp = 4, .ep = 2, .zero = 3}})
    table.as_one("moe_bias experts", experts, axes, within(kTolerance));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Lamb, LayoutTest, testing::ValuesIn(lamb()), layout_case_name);

std::vector<LayoutCase> other_settings() {
  LayoutTable table;
  for (const char* optimizer : {"adamw", "lamb", "sgd"}) {
    const Config config = with_groups(on_the_tree(wide({"llama", "bf16", 0.1, optimizer, "none"})));
    for (const Axes& axes : {Axes{.dp = 2}, {.dp = 3, .zero = 3}, {.pp = 2}})
      table.as_one(std::string("groups ") + optimizer, config, axes);
    table.as_one(std::string("groups ") + optimizer, with_groups(uneven("llama", optimizer)), {.tp = 2},
                 within(kTolerance));
  }
  Config uncorrected = on_the_tree(wide({"gpt2", "f32", 0.1, "adamw", "none"}));
  uncorrected.optimizer.bias_correction = false;
  for (const Axes& axes : {Axes{.dp = 3, .zero = 2}, {.pp = 2}})
    table.as_one("uncorrected", uncorrected, axes);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(OtherSettings, LayoutTest, testing::ValuesIn(other_settings()), layout_case_name);

std::vector<LayoutCase> resumed() {
  LayoutTable table;
  const Config config = with_groups(with_lamb("llama", "bf16"));
  table.resumed("lamb", in_axes(config, {.dp = 3, .zero = 3}), in_axes(config, {.dp = 2, .zero = 1}), 2,
                config);
  table.resumed("lamb", config, in_axes(config, {.dp = 2, .zero = 2}), 2, config);
  Config uncorrected = on_the_tree(wide({"gpt2", "f32", 0.1, "adamw", "none"}));
  uncorrected.optimizer.bias_correction = false;
  table.resumed("uncorrected", uncorrected, in_axes(uncorrected, {.dp = 2, .zero = 2}), 2, uncorrected);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeTest, testing::ValuesIn(resumed()), layout_case_name);

std::vector<LayoutCase> planned() {
  LayoutTable table;
  for (const char* family : {"llama", "moe_bias"})
    for (const Axes& axes : {Axes{}, {.dp = 2}, {.dp = 2, .zero = 3}}) {
      Config config = in_axes(with_lamb(family, "bf16"), axes);
      config.train.steps = 2;
      table.planned(family, config, {.plan_of_most = true});
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Lamb, PlanTest, testing::ValuesIn(planned()), layout_case_name);

// A pattern is checked against all parameters of the model, wherever they are.
TEST(OptimizerGroups, APatternWithoutAParameterIsRefused) {
  Config config = tiny("llama");
  config.optimizer.group = {{.match = "blocks.0.attn.qq.weight"}};
  try {
    run_layout(one_process(config));
    FAIL() << "expected a refusal";
  } catch (const ConfigError& error) {
    const std::string text = error.what() + (" " + error.hint());
    EXPECT_NE(text.find("match = \"blocks.0.attn.qq.weight\", which no parameter has"), std::string::npos)
        << text;
    EXPECT_NE(text.find("blocks.0.attn.q.weight"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace athanor::tests::optimizers_test
