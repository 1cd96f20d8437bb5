// Compressed gradients in layouts. A pipeline and the stage of ZeRO change no bit of them; under cp, tp and ep ranks have
// other gradients to compress than dp alone, so there a run is held against the one without compression, and is the same
// twice. tests/train/compression_test.cpp has what they are by definition.
#include <fmt/format.h>

#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::layouts_compression_test {
namespace {

Config plain_of(Config config) {
  config.compression.method = "none";
  return config;
}

void near_plain(LayoutTable& table, const std::string& label, const Config& config, const Axes& axes,
                double part) {
  const Config many = in_axes(config, axes);
  table.beside(label, many, plain_of(many), {.twice = true, .near = part}, text_of(axes));
}

const char* const kEveryKind[] = {"bf16", "int8", "topk", "powersgd", "onebit-adam"};

std::vector<LayoutCase> compressed_pipelines() {
  LayoutTable table;
  for (const char* kind : kEveryKind)
    for (const char* family : {"llama", "gpt2", "moe"}) {
      const Config config = compressed_gently(kind, family);
      const bool moe = config.model.num_experts > 0;
      const Axes flat{.dp = moe ? 4 : 2, .ep = moe ? 2 : 1};
      Axes axes = flat;
      axes.pp = 2;
      // 1-bit Adam's norm is of gradients that are not summed: its squares are added over stages and ranks at once.
      table.beside(fmt::format("{} {}", kind, family), in_axes(config, axes), in_axes(config, flat),
                   {.rounded_norms = kind == std::string("onebit-adam") ? 1e-14 : 0.0,
                    .more_state = true,
                    .compresses = true},
                   text_of(axes));
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(CompressedPipelines, LayoutTest, testing::ValuesIn(compressed_pipelines()),
                         layout_case_name);

// Every stage of ZeRO, in one shard group or two, beside every other axis.
std::vector<LayoutCase> compressed_stages() {
  LayoutTable table;
  table.leave_out_threads("so many trainings take minutes");
  for (const auto& [family, layout] : {std::pair("llama", Axes{.dp = 4}),
                                       {"llama", {.dp = 4, .pp = 2}},
                                       {"llama", {.dp = 4, .cp = 2}},
                                       {"llama", {.dp = 4, .tp = 2}},
                                       {"moe", {.dp = 4, .ep = 2}}})
    for (const auto& [zero, shard] : {std::pair(0, 0), {1, 0}, {2, 0}, {3, 0}, {1, 2}, {2, 2}, {3, 2}})
      for (const std::string kind : kEveryKind) {
        if (kind != "bf16" && kind != "int8" && (zero > 1 || shard > 0)) continue;
        Axes axes = layout;
        axes.zero = zero;
        axes.shard = shard;
        Config config = compressed_gently(kind, family);
        config.train.steps = 3;
        const Config many = in_axes(config, axes);
        table.beside(kind + " " + family, many, plain_of(many), {.near = 0.05}, text_of(axes));
      }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(CompressedStages, LayoutTest, testing::ValuesIn(compressed_stages()),
                         layout_case_name);

// Those that keep most of a gradient are near; of the others the first step's loss is exact.
std::vector<LayoutCase> compressed_contexts() {
  LayoutTable table;
  table.leave_out_threads("so many trainings take minutes");
  for (const char* kind : kEveryKind)
    for (const int ep : {1, 2})
      near_plain(table, kind, compressed_gently(kind, "moe_bias"), {.dp = 2, .cp = 2, .ep = ep},
                 kind == std::string("bf16") || kind == std::string("int8") ? 0.002 : 0.05);
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(CompressedContexts, LayoutTest, testing::ValuesIn(compressed_contexts()),
                         layout_case_name);

// ZeRO 2 and 3 send every round of micro-batches, and are one function.
std::vector<LayoutCase> compressed_rounds() {
  LayoutTable table;
  for (const char* kind : {"bf16", "int8"}) {
    const Config config = compressed_blocks(kind), flat = in_axes(config, {.dp = 2, .zero = 2});
    for (const Axes& axes : {Axes{.dp = 2, .zero = 3}, {.dp = 2, .pp = 2, .zero = 3}})
      table.beside(kind, in_axes(config, axes), flat, {.compresses = true}, text_of(axes));
    // All micro-batches of a stage one after the other: a bucket is complete again while it is summed.
    Config one_bucket = config;
    one_bucket.parallel.bucket_bytes = 16 << 20;
    const Axes breadth_first{.dp = 2, .pp = 2, .zero = 2, .schedule = "bfs"};
    table.beside(std::string(kind) + " one bucket", in_axes(one_bucket, breadth_first),
                 in_axes(one_bucket, {.dp = 2, .zero = 2}), {.compresses = true}, text_of(breadth_first));
    near_plain(table, kind, config, {.dp = 2, .tp = 2, .zero = 3, .sp = true}, 0.002);
    near_plain(table, kind, compressed_blocks(kind, "gpt2"), {.dp = 2, .cp = 2, .zero = 3}, 0.002);
    for (const Axes& axes : {Axes{.dp = 2, .ep = 2, .zero = 3}, {.dp = 4, .pp = 2, .ep = 2, .zero = 3}})
      near_plain(table, kind, compressed_blocks(kind, "moe_bias"), axes, 0.002);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(CompressedRounds, LayoutTest, testing::ValuesIn(compressed_rounds()),
                         layout_case_name);

// Between the shard groups of hybrid sharding.
std::vector<LayoutCase> compressed_shard_groups() {
  LayoutTable table;
  const Axes groups{.dp = 4, .zero = 1, .shard = 2};
  for (const char* kind : {"bf16", "int8"}) {
    const Config config = compressed_blocks(kind);
    for (const auto& [family, zero] : {std::pair("gpt2", 1), {"llama", 2}}) {
      const Config of = compressed_blocks(kind, family);
      const Axes flat{.dp = 4, .zero = zero, .shard = 2}, axes{.dp = 4, .pp = 2, .zero = zero, .shard = 2};
      table.beside(fmt::format("{} {}", kind, family), in_axes(of, axes), in_axes(of, flat),
                   {.more_state = true}, text_of(axes));
    }
    Config one_bucket = config, warm = config;
    one_bucket.parallel.bucket_bytes = 16 << 20;
    table.beside(std::string(kind) + " one bucket", in_axes(one_bucket, groups), in_axes(config, groups), {},
                 text_of(groups));
    warm.compression.warmup_steps = config.train.steps;
    table.beside(std::string(kind) + " plain steps alone", in_axes(warm, groups),
                 plain_of(in_axes(config, groups)), {.more_state = true}, text_of(groups));
    warm.compression.warmup_steps = 2;
    near_plain(table, std::string(kind) + " two plain steps", warm, groups, 0.002);
    near_plain(table, kind, config, {.dp = 4, .cp = 2, .zero = 3, .shard = 2}, 0.002);
    near_plain(table, kind, config, {.dp = 4, .tp = 2, .zero = 1, .shard = 2}, 0.002);
    for (const Axes& axes :
         {Axes{.dp = 4, .ep = 2, .zero = 2, .shard = 2}, {.dp = 4, .tp = 2, .zero = 2, .shard = 2}})
      near_plain(table, std::string(kind) + " moe", compressed_blocks(kind, "moe"), axes, 0.002);
    Config two = config;
    two.local_sgd.sync_interval = 2;
    near_plain(table, std::string(kind) + " local SGD", two, {.dp = 8, .zero = 3, .shard = 2, .group = 4},
               0.002);
  }
  // Of one group nobody is there to exchange anything with.
  for (const int64_t zero : {1, 2, 3}) {
    const Config one = in_axes(compressed_blocks("int8"), {.dp = 4, .zero = zero, .shard = 4});
    table.beside("one shard group", one, plain_of(one), {}, fmt::format("zero{}", zero));
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(CompressedShardGroups, LayoutTest, testing::ValuesIn(compressed_shard_groups()),
                         layout_case_name);

// 1-bit Adam's state that ZeRO 1 shares out has the bits of whole state.
std::vector<LayoutCase> onebit_state() {
  LayoutTable table;
  const auto add = [&](const std::string& label, const Config& config, const Axes& whole) {
    Axes shared = whole;
    shared.zero = 1;
    table.beside(label, in_axes(config, shared), in_axes(config, whole), {.compresses = true},
                 text_of(shared));
  };
  for (const char* family : {"llama", "gpt2"})  // tied embeddings, vectors beside matrices
    for (const auto& [compute, dp] : {std::pair("f32", 3), {"bf16", 4}}) {
      Config config = onebit_blocks(family);
      config.precision.compute = compute;
      add(fmt::format("{} {}", family, compute), config, {.dp = dp});
    }
  add("gpt2", onebit_blocks("gpt2"), {.dp = 2, .tp = 2});
  add("gpt2", onebit_blocks("gpt2"), {.dp = 2, .pp = 2});
  add("llama", onebit_blocks("llama"), {.dp = 2, .cp = 2});
  Config groups = onebit_blocks("llama");
  groups.train.steps = 6;
  groups.local_sgd.sync_interval = 2;
  add("llama", groups, {.dp = 4, .group = 2});
  // Stacks whose matrices do not end where blocks do; a part of them on every rank, some perhaps without a token.
  for (const Axes& axes : {Axes{.dp = 2}, {.dp = 2, .ep = 2}, {.dp = 2, .tp = 2, .ep = 2}})
    add("moe", onebit_blocks("moe"), axes);
  add("moe_bias", onebit_blocks("moe_bias"), {.dp = 4, .ep = 2});
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(OneBitState, LayoutTest, testing::ValuesIn(onebit_state()), layout_case_name);

// What says nothing: one rank, and a warm-up that does not end.
std::vector<LayoutCase> not_compressed() {
  LayoutTable table;
  table.beside("one rank", compressed("int8"), compressed("none"), {}, "alone");
  Config warm = in_axes(compressed("topk"), {.dp = 3});
  warm.compression.warmup_steps = warm.train.steps;
  table.beside("plain steps alone", warm, plain_of(warm), {.more_state = true}, "dp3");
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(NotCompressed, LayoutTest, testing::ValuesIn(not_compressed()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::layouts_compression_test
