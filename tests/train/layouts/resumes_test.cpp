// Law 5: a run goes on from its checkpoint to the same bits, in the layout that wrote it or in another.
#include <fmt/format.h>

#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"
#include "train/wide_training.h"

namespace athanor::tests::resumes_test {
namespace {

// Any stage of ZeRO on any number of ranks goes on from any other.
std::vector<LayoutCase> stages() {
  LayoutTable table;
  for (const char* family : {"llama", "gpt2"})
    for (const char* compute : {"f32", "bf16"}) {
      Config config = wide({family, compute, 0.1, "adamw", "none"});
      config.parallel.reduce = "tree";
      config.train.steps = 8;
      const auto add = [&](const Axes& first, const Axes& then, int64_t saved) {
        table.resumed(fmt::format("{} {}", family, compute), in_axes(config, then), in_axes(config, first),
                      saved, config);
      };
      add({}, {}, 2);
      add({.dp = 4, .zero = 3}, {}, 2);
      add({}, {.dp = 3, .zero = 2}, 4);
      add({.dp = 3, .zero = 2}, {.dp = 4, .zero = 3}, 6);
      add({.dp = 2, .zero = 1}, {.dp = 5, .zero = 3}, 2);
      add({.dp = 5, .zero = 3}, {.dp = 2, .zero = 3}, 4);
      add({.dp = 2, .zero = 3}, {.dp = 3, .zero = 1}, 6);
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Stages, ResumeTest, testing::ValuesIn(stages()), layout_case_name);

// Between two outer steps.
std::vector<LayoutCase> replica_groups() {
  LayoutTable table;
  struct Compressed {
    int zero;
    const char *inner = "none", *outer = "none";
  };
  for (const auto& [zero, inner, outer] :
       {Compressed{0}, Compressed{3}, Compressed{0, "int8", "int8"}, Compressed{1, "powersgd", "bf16"},
        Compressed{3, "none", "int8"}, Compressed{0, "onebit-adam", "int8"}, Compressed{0, "topk"}}) {
    Config config = in_axes(local_sgd("llama", "adamw"), {.dp = 4, .zero = zero, .group = 2});
    config.compression.method = inner;
    config.local_sgd.compression = outer;
    config.compression.warmup_steps = 1;
    if (std::string(inner) != "none") config.parallel.reduce = "fast";
    for (const int64_t saved : {2, 4}) table.resumed(fmt::format("{} {}", inner, outer), config, saved);
  }
  // Another layout of the same replica groups, with what compression left out of the first outer steps.
  for (const char* outer : {"none", "int8"}) {
    Config config = local_sgd("llama", "adamw", 2);
    config.local_sgd.compression = outer;
    const auto stage = [&](int64_t zero) { return in_axes(config, {.dp = 4, .zero = zero, .group = 2}); };
    table.resumed(fmt::format("every two {}", outer), stage(1), stage(3), 2, stage(0));
    table.resumed(fmt::format("every two {}", outer), stage(2), stage(1), 4, stage(0));
  }
  for (const auto& [family, layout] : {std::pair("gpt2", Axes{.dp = 4, .pp = 2, .group = 2}),
                                       {"llama", {.dp = 4, .cp = 2, .group = 2}},
                                       {"moe", {.dp = 4, .ep = 2, .group = 2}},
                                       {"moe", {.dp = 4, .pp = 2, .ep = 2, .group = 2}}})
    for (const int64_t zero : {0, 3}) {
      Axes axes = layout;
      axes.zero = zero;
      table.resumed(family, in_axes(local_sgd(family, "adamw"), axes), 4);
    }
  Config tied = local_sgd("gpt2", "adamw");
  tied.model.vocab_size = 400;  // the two stages that have the tied table share it out otherwise
  const Config one = in_axes(tied, {.dp = 2, .group = 1});
  for (const int64_t zero : {0, 1}) {
    const Config pipeline = in_axes(tied, {.dp = 4, .pp = 2, .zero = zero, .group = 2});
    table.resumed("tied", one, pipeline, 4, one);
    table.resumed("tied", pipeline, one, 4, one);
  }
  for (const int64_t zero : {1, 3})
    table.resumed(
        "hybrid",
        in_axes(several_blocks(local_sgd("llama", "adamw")), {.dp = 8, .zero = zero, .shard = 2, .group = 4}),
        4);
  for (const double scale : {64.0, 0x1p18})
    table.resumed(scale == 64.0 ? "f16" : "f16 that overflows",
                  in_axes(local_sgd_in_f16("adamw", scale), {.dp = 4, .group = 2}), 4);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ReplicaGroups, ResumeTest, testing::ValuesIn(replica_groups()), layout_case_name);

// Error-feedback residuals and factors of every rank that sums a gradient are in the checkpoint.
std::vector<LayoutCase> compressed_runs() {
  LayoutTable table;
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"}) {
    Config config = in_axes(compressed(kind, "gpt2"), {.dp = 3});
    config.train.steps = 5;
    table.resumed(kind, config, 2);
  }
  for (const auto& [kind, zero] : {std::pair("bf16", 2), {"int8", 1}, {"int8", 3}})
    table.resumed(std::string(kind) + " shard groups",
                  in_axes(compressed_blocks(kind, "gpt2"), {.dp = 4, .zero = zero, .shard = 2}), 2);
  for (const char* kind : {"bf16", "int8"})
    for (const int64_t zero : {2, 3})
      table.resumed(kind, in_axes(compressed_blocks(kind), {.dp = 3, .zero = zero}), 2);
  // Each part of a matrix that tp cuts has a factor; those of matrices that it leaves whole are as without it. Factors of
  // other parts are none of these: they begin again.
  const Config parts = in_axes(compressed_gently("powersgd", "gpt2"), {.dp = 2, .tp = 2}),
               flat = in_axes(compressed_gently("powersgd", "gpt2"), {.dp = 2});
  table.resumed("parts of matrices", parts, 3);
  table.resumed("other parts of matrices", flat, parts, 3, parts, {.losses = 0.05});
  table.leave_out_threads("so many trainings take minutes");
  for (const char* kind : {"int8", "topk", "powersgd", "onebit-adam"})
    table.resumed(kind, in_axes(compressed_gently(kind, "moe_bias"), {.dp = 2, .cp = 2, .ep = 2}), 3);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Compressed, ResumeTest, testing::ValuesIn(compressed_runs()), layout_case_name);

// 1-bit Adam, before the end of its warm-up, at it and behind it: state that is shared out (ZeRO 1) and whole state go on
// from each other.
std::vector<LayoutCase> onebit_runs() {
  LayoutTable table;
  const Config config = onebit("gpt2");
  for (const int64_t saved : {2, 3, 5})
    for (const int64_t first : {0, 1})
      for (const int64_t then : {0, 1})
        table.resumed("gpt2", in_axes(config, {.dp = 3, .zero = then}),
                      in_axes(config, {.dp = 3, .zero = first}), saved, in_axes(config, {.dp = 3}));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(OneBit, ResumeTest, testing::ValuesIn(onebit_runs()), layout_case_name);

// Experts of shard groups, and the rest of their run in other layouts.
std::vector<LayoutCase> shared_experts() {
  LayoutTable table;
  for (const Axes& axes : {Axes{.dp = 8, .ep = 2, .zero = 3, .shard = 4},
                           {.dp = 4, .ep = 2, .zero = 1, .shard = 2},
                           {.dp = 4, .tp = 2, .zero = 3, .shard = 2}}) {
    Config config = eight_experts(tiny("moe_bias"));
    config.precision.compute = "f32";
    config.optimizer.lr = 1e-3;
    config.train.global_batch_size = 16;
    const Config many = in_axes(config, axes);
    table.resumed("moe_bias", many, 2);
    for (const Axes& other : {Axes{}, Axes{.dp = 4, .ep = 4, .zero = 2, .shard = 2}})
      table.resumed("moe_bias", in_axes(config, other), many, 2, many, {.losses = 1e-5});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(SharedExperts, ResumeTest, testing::ValuesIn(shared_experts()), layout_case_name);

// A checkpoint of parameter servers is one of the logical model.
std::vector<LayoutCase> servers() {
  LayoutTable table;
  for (const int64_t cp : {1, 2}) {
    Config config = uneven("moe_bias", "adamw");
    config.train.steps = 4;
    const Config zero = in_axes(config, {.dp = 2, .cp = cp, .zero = 1});
    const auto served = [&](int64_t count) { return in_axes(config, {.dp = 2, .cp = cp, .servers = count}); };
    table.resumed("moe_bias", zero, served(2), 2, zero);
    table.resumed("moe_bias", served(1), zero, 2, zero);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Servers, ResumeTest, testing::ValuesIn(servers()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::resumes_test
