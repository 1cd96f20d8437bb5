// Experts that lie on several ranks, alone and in tensor groups, whose ranks share out the tokens.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::experts_test {
namespace {

struct ExpertCase {
  const char *style, *optimizer, *recompute;
  double capacity;
};

std::vector<LayoutCase> expert_ranks() {
  LayoutTable table;
  for (const ExpertCase& each :
       {ExpertCase{"moe", "adamw", "none", 0.0}, ExpertCase{"moe", "sgd", "full", 0.7},
        ExpertCase{"moe_bias", "adamw", "selective", 0.0}, ExpertCase{"moe_bias", "sgd", "none", 0.0}}) {
    Config config = tiny(each.style);
    config.precision.compute = "f32";
    config.model.num_experts = 8;
    config.model.capacity_factor = each.capacity;
    config.train.global_batch_size = 8;  // four micro-batches
    config.optimizer.name = each.optimizer;
    // AdamW turns the rounding of a gradient near zero into steps of full length.
    if (config.optimizer.name == "adamw") config.optimizer.lr = 1e-3;
    config.parallel.recompute = each.recompute;
    for (const Axes& axes : {Axes{.dp = 2, .ep = 2}, {.dp = 4, .ep = 2}, {.dp = 4, .ep = 4}, {.dp = 4}})
      table.as_one(fmt::format("{} {}", each.style, each.optimizer), config, axes,
                   {.tolerance = 1e-5, .expert_counts = true, .twice = true});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ExpertRanks, LayoutTest, testing::ValuesIn(expert_ranks()), layout_case_name);

// Six experts of which a token goes to three, in micro-batches of 22, 22 and 11 tokens: of three sequences and one of 11. Both
// styles with drops; "moe" with the balancing loss, "moe_bias" with the bias of exact counts and a shared expert.
Config six_of_tensor_ranks(const std::string& style, const std::string& optimizer) {
  Config config = uneven(style, optimizer);
  config.model.num_attention_heads = 6;
  config.model.num_key_value_heads = 6;
  config.model.head_dim = 4;
  config.model.intermediate_size = 66;
  config.model.num_experts = 6;
  config.model.num_experts_per_tok = 3;
  config.model.capacity_factor = style == "moe" ? 0.75 : 1.25;
  if (style == "moe") config.model.router_aux_loss_coef = 0.2;
  config.train.steps = 4;
  return config;
}

LayoutCheck exact_experts(size_t dropping_steps = 0) {
  return {.tolerance = kTolerance,
          .expert_counts = true,
          .expert_losses = true,
          .dropping_steps = dropping_steps};
}

void every_tensor_layout(LayoutTable& table, const std::string& label, const Config& config) {
  for (const bool sp : {false, true})
    for (Axes axes : {Axes{.tp = 2},
                      {.tp = 3},
                      {.tp = 6},
                      {.tp = 2, .ep = 2},
                      {.tp = 6, .ep = 3},
                      {.dp = 3, .tp = 2, .ep = 6},
                      {.dp = 2, .tp = 2},
                      {.tp = 2, .cp = 2},
                      {.tp = 3, .cp = 2, .ep = 2},
                      {.tp = 3, .cp = 2, .ep = 3, .cp_method = "ulysses"},
                      {.tp = 2, .pp = 2, .recompute = "full"},
                      {.tp = 2, .recompute = "selective"}}) {
      axes.sp = sp;
      table.as_one(label, config, axes, exact_experts(1));
    }
}

// Three micro-batches for two ranks of dp, which have no micro-batch in the last round alike: experts' gradients and values are
// shared out over more ranks than all others, and meet in the same order.
void shards_of_tensor_ranks(LayoutTable& table, const std::string& label, const Config& config) {
  for (int zero = 0; zero <= 3; ++zero)
    for (const char* reduce : {"fast", "tree"})
      for (Axes axes : {Axes{.dp = 2, .tp = 2},
                        {.dp = 2, .tp = 2, .ep = 2},
                        {.dp = 2, .tp = 2, .cp = 2, .ep = 2},
                        {.dp = 2, .cp = 2, .ep = 2},
                        {.tp = 2, .pp = 2}}) {
        axes.zero = zero;
        axes.reduce = reduce;
        axes.sp = zero % 2 == 1 && axes.tp > 1;
        table.as_one(label + " zero" + std::to_string(zero), config, axes, exact_experts());
      }
}

// Law 5: at equal tp and cp, neither dp nor the stage of ZeRO is seen in a bit.
void tree_of_tensor_ranks(LayoutTable& table, const std::string& label, const Config& config) {
  for (const Axes& base : {Axes{.tp = 2, .ep = 2, .reduce = "tree"}, Axes{.tp = 3, .reduce = "tree"},
                           Axes{.cp = 2, .ep = 2, .reduce = "tree"}})
    for (const int dp : {1, 2, 3})
      for (const int zero : {0, 1, 2, 3}) {
        Axes axes = base;
        axes.dp = dp;
        axes.zero = zero;
        table.beside(label + " tree", in_axes(config, axes), in_axes(config, base), {}, text_of(axes));
      }
}

// A rank without a token of a micro-batch takes part in everything.
void ranks_without_tokens(LayoutTable& table, const std::string& label, Config config) {
  config.train.micro_batch_size = 1;
  config.train.global_batch_size = 3;
  for (const int64_t length : {1, 2, 4, 7}) {
    config.data.seq_len = length;
    for (const bool sp : {false, true})
      for (Axes axes : {Axes{.tp = 3},
                        {.tp = 6, .ep = 3},
                        {.tp = 6, .zero = 3},
                        {.dp = 3, .tp = 2, .ep = 6, .zero = 2}}) {
        axes.sp = sp;
        table.as_one(fmt::format("{} sequences of {}", label, length), config, axes, exact_experts());
      }
  }
}

std::vector<LayoutCase> experts_of_tensor_ranks() {
  LayoutTable table;
  for (const auto& [style, optimizer] :
       {std::pair("moe", "adamw"), {"moe", "sgd"}, {"moe_bias", "adamw"}, {"moe_bias", "sgd"}}) {
    const bool first = style == std::string("moe") && optimizer == std::string("adamw");
    table.leave_out(first ? nullptr : "one style and optimizer of four: the others take minutes");
    const Config config = six_of_tensor_ranks(style, optimizer);
    const std::string label = fmt::format("{} {}", style, optimizer);
    every_tensor_layout(table, label, config);
    shards_of_tensor_ranks(table, label, config);
    tree_of_tensor_ranks(table, label, config);
    ranks_without_tokens(table, label, config);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ExpertsOfTensorRanks, LayoutTest, testing::ValuesIn(experts_of_tensor_ranks()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::experts_test
