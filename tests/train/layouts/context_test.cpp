// Context parallelism: ranks that share sequences, alone and with experts that lie on several ranks.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::context_test {
namespace {

struct ContextCase {
  const char *family, *optimizer;
  bool documents;
};

std::vector<LayoutCase> context_ranks() {
  LayoutTable table;
  for (const ContextCase& each : {ContextCase{"llama", "adamw", false}, ContextCase{"llama", "sgd", true},
                                  ContextCase{"gpt2", "adamw", true}, ContextCase{"gpt2", "sgd", false}}) {
    Config config = uneven(each.family, each.optimizer);
    config.data.document_mask = each.documents;
    for (const Axes& axes : {Axes{.cp = 3},
                             {.cp = 4},
                             {.dp = 2, .cp = 2},
                             {.tp = 2, .cp = 2, .sp = true},
                             {.cp = 4, .cp_method = "ulysses"},
                             {.tp = 2, .cp = 2, .cp_method = "ulysses"}})
      table.as_one(fmt::format("{} {}{}", each.family, each.optimizer, each.documents ? " documents" : ""),
                   config, axes, within(kTolerance));
  }
  Config config = uneven("llama", "adamw");
  config.train.steps = 3;
  for (const char* kind : {"ring", "ulysses"})
    for (const char* recompute : {"selective", "full"})
      table.as_one("llama adamw", config,
                   {.dp = 2, .cp = 2, .recompute = recompute, .cp_method = kind, .reduce = "tree"},
                   within(kTolerance));
  const Config three = in_axes(config, {.cp = 3});
  table.beside("two runs", three, three, {}, "cp3");
  // Choices are made token by token, and the bias moves by the counts of the whole step.
  config = uneven("moe_bias", "sgd");
  config.train.steps = 3;
  for (const char* kind : {"ring", "ulysses"})
    for (const int dp : {1, 2})
      table.as_one("moe_bias sgd", config, {.dp = dp, .cp = 2, .cp_method = kind}, within(kTolerance));
  config = uneven("gpt2", "sgd");
  config.model.num_attention_heads = config.model.num_key_value_heads = 6;
  config.model.head_dim = 4;
  config.train.steps = 3;
  table.as_one("six heads", config, {.cp = 3, .cp_method = "ulysses"}, within(kTolerance));
  for (const char* compute : {"bf16", "f16"})
    for (const char* kind : {"ring", "ulysses"}) {
      config = uneven("llama", "sgd");
      config.precision.compute = compute;
      config.train.steps = 3;
      table.as_one(compute, config, {.cp = 2, .cp_method = kind}, {.losses = 1e-2, .norms = 3e-2});
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ContextRanks, LayoutTest, testing::ValuesIn(context_ranks()), layout_case_name);

// Law 5: at equal cp, neither the number of ranks that share out the micro-batches nor the stage of ZeRO is seen in a bit.
std::vector<LayoutCase> tree_of_context_ranks() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"}) {
    Config config = tiny(family);  // five micro-batches
    config.parallel.reduce = "tree";
    config.train.steps = 3;
    config.data.seq_len = 11;
    for (const int cp : {2, 3})
      for (const int dp : {1, 2, 3})
        for (int zero = 0; zero <= 3; ++zero) {
          if (dp * cp > 6 || (dp == 1 && zero == 0)) continue;
          const Axes axes{.dp = dp, .cp = cp, .zero = zero};
          table.beside(family, in_axes(config, axes), in_axes(config, {.cp = cp}), {}, text_of(axes));
        }
  }
  Config config = tiny("llama");
  config.train.steps = 3;
  config.train.global_batch_size = 12;
  config.parallel.reduce = "tree";
  for (int zero = 1; zero <= 3; ++zero) {
    const Axes axes{.dp = 4, .cp = 2, .zero = zero, .shard = 2};
    table.beside("llama", in_axes(config, axes), in_axes(config, {.cp = 2}), {}, text_of(axes));
  }
  config.precision.compute = "f32";
  for (int zero = 1; zero <= 3; ++zero)
    table.as_one("llama", config, {.dp = 4, .cp = 2, .zero = zero, .shard = 2, .reduce = "fast"},
                 within(kTolerance));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(TreeOfContextRanks, LayoutTest, testing::ValuesIn(tree_of_context_ranks()),
                         layout_case_name);

// Experts that are balanced by the counts of the whole step.
Config counted_experts(const std::string& style, const std::string& optimizer = "sgd") {
  Config config = tiny(style);
  config.precision.compute = "f32";
  config.model.num_experts = 8;
  config.model.router_aux_loss_coef = 0.0;
  config.model.router_bias_update_rate = 0.02;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.data.seq_len = 11;            // parts of other lengths on each rank
  config.train.global_batch_size = 8;  // four micro-batches
  return config;
}

constexpr LayoutCheck kExactCounts{.tolerance = kTolerance, .expert_counts = true};

std::vector<LayoutCase> experts_of_context_ranks() {
  LayoutTable table;
  for (const auto& [style, optimizer] :
       {std::pair("moe", "adamw"), {"moe", "sgd"}, {"moe_bias", "adamw"}, {"moe_bias", "sgd"}})
    for (const Axes& axes : {Axes{.cp = 2, .ep = 2},
                             {.cp = 4, .ep = 2},
                             {.dp = 2, .cp = 2, .ep = 2},
                             {.dp = 2, .cp = 2, .ep = 4},
                             {.tp = 2, .cp = 2, .ep = 2, .sp = true},
                             {.dp = 2, .tp = 2, .cp = 2, .ep = 4},
                             {.dp = 2, .cp = 2, .ep = 2, .cp_method = "ulysses"},
                             {.cp = 4, .ep = 4, .cp_method = "ulysses"}})
      table.as_one(fmt::format("{} {}", style, optimizer), counted_experts(style, optimizer), axes,
                   kExactCounts);
  Config config = counted_experts("moe_bias");
  config.train.steps = 3;
  for (const char* reduce : {"fast", "tree"})
    for (int zero = 0; zero <= 3; ++zero)
      for (Axes axes : {Axes{.dp = 2, .cp = 2, .ep = 2}, Axes{.pp = 2, .cp = 2, .ep = 2}}) {
        axes.zero = zero;
        axes.reduce = reduce;
        axes.recompute = zero % 2 == 0 ? "full" : "none";
        table.as_one("shards", config, axes, kExactCounts);
      }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ExpertsOfContextRanks, LayoutTest, testing::ValuesIn(experts_of_context_ranks()),
                         layout_case_name);

// What is defined over all tokens of a micro-batch, whose parts lie on several ranks: drops are counted in the order of the
// whole sequences, the balancing loss has the shares of the whole micro-batch.
std::vector<LayoutCase> whole_micro_batches() {
  LayoutTable table;
  for (const char* style : {"moe", "moe_bias"}) {
    Config config = counted_experts(style);
    config.model.router_bias_update_rate = 0.0;
    config.model.router_aux_loss_coef = 0.2;
    config.model.router_z_loss_coef = 0.01;
    config.model.capacity_factor = 0.75;
    config.train.micro_batch_size = 2;
    config.train.steps = 4;
    for (const Axes& axes : {Axes{.cp = 2},
                             {.cp = 3},
                             {.dp = 2, .cp = 2, .ep = 2},
                             {.cp = 4, .ep = 2},
                             {.tp = 2, .cp = 2, .ep = 4, .sp = true},
                             {.pp = 2, .cp = 2, .ep = 2},
                             {.cp = 2, .ep = 2, .cp_method = "ulysses"},
                             {.dp = 2, .cp = 2, .ep = 4, .recompute = "full", .cp_method = "ulysses"}})
      table.as_one(
          style, config, axes,
          {.tolerance = kTolerance, .expert_counts = true, .expert_losses = true, .dropping_steps = 4});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(WholeMicroBatches, LayoutTest, testing::ValuesIn(whole_micro_batches()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::context_test
