// ZeRO: every stage on any number of ranks computes what one process computes.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"
#include "train/wide_training.h"

namespace athanor::tests::zero_test {
namespace {

std::vector<LayoutCase> stages_of_zero() {
  LayoutTable table;
  for (const WideCase& each :
       {WideCase{"llama", "f32", 0.0, "adamw", "none"}, WideCase{"llama", "bf16", 0.1, "sgd", "full"},
        WideCase{"gpt2", "f32", 0.1, "sgd", "none"}, WideCase{"gpt2", "bf16", 0.0, "adamw", "selective"},
        WideCase{"gpt2", "f16", 0.1, "adamw", "group:2"}}) {
    const std::string label = fmt::format("{} {}", each.family, each.compute);
    const Config config = wide(each);  // five micro-batches: uneven for two to four ranks
    Config tree = config;
    tree.parallel.reduce = "tree";
    for (const int zero : {1, 2, 3})
      for (const int dp : {2, 3, 4, 5}) table.as_one(label + " tree", tree, {.dp = dp, .zero = zero});
    // Each rank adds up its own first: stages 0 and 1 in one order, 2 and 3 in another. A micro-batch a rank is one order.
    const auto fast = [&](const Axes& axes, int64_t like) {
      table.beside(label + " fast", in_axes(config, axes), in_axes(config, {.dp = axes.dp, .zero = like}), {},
                   text_of(axes));
    };
    for (const int dp : {2, 3, 4}) {
      fast({.dp = dp, .zero = 1}, 0);
      fast({.dp = dp, .zero = 3}, 2);
    }
    for (const int zero : {1, 2, 3}) fast({.dp = 5, .zero = zero}, 0);
    const double tolerance = std::string(each.compute) == "f32" ? 1e-5 : 5e-2;
    table.as_one(label + " fast", config, {.dp = 2, .zero = 2}, {.losses = tolerance, .norms = tolerance});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(StagesOfZero, LayoutTest, testing::ValuesIn(stages_of_zero()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::zero_test
