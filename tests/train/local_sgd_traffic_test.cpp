// What local SGD sends: the documented bytes, once in k steps.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "athanor/comm/hierarchical/hierarchical.h"
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"

namespace athanor::tests::local_sgd_traffic_test {
namespace {

const Group& across_of(const Training& training) {
  return *training.groups().dense.average;
}

// A rank whose share has B blocks sends 2 (H-1) ceil(B/H) of them, compressed, at an outer step.
TEST(LocalSgdTraffic, CompressedOuterStepsSendTheDocumentedBytes) {
  for (const auto& [kind, block_bytes] : {std::pair("bf16", 512), {"int8", 260}})
    for (const auto& [ranks, group] : {std::pair(2, 1), {6, 2}, {6, 3}}) {
      Config config = in_axes(local_sgd("llama", "adamw"), {.dp = ranks, .group = group});
      config.local_sgd.compression = kind;
      const int64_t groups = ranks / group, size = group, bytes = block_bytes;
      run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
                   int64_t blocks = 0;
                   for (const auto& param : training.model->params()) blocks += (param->numel() + 255) / 256;
                   blocks = (blocks + size - 1) / size;  // of a rank's share
                   EXPECT_EQ(across_of(training).traffic().total().bytes,
                             2 /*outer steps*/ * 2 * (groups - 1) * ((blocks + groups - 1) / groups) * bytes)
                       << config.local_sgd.compression;
                 }});
    }
}

// Over the slow link a replica group sends 2 (H-1)/H 4 bytes a parameter, once in k steps.
TEST(LocalSgdTraffic, SendsTheDocumentedBytesOncePerOuterStep) {
  const auto across = [](int64_t every, int64_t zero) {
    const Config config = in_axes(local_sgd("llama", "adamw", every), {.dp = 4, .zero = zero, .group = 2});
    std::atomic<int64_t> bytes = 0;
    run_layout(config, {.end = [&](Training& training, TrainState&, World&) {
                 bytes += across_of(training).traffic().total().bytes;
                 EXPECT_EQ(across_of(training).traffic().total().calls, 6 / every);
               }});
    return bytes.load();
  };
  for (const int64_t zero : {0, 1, 3}) {
    const int64_t every_step = across(1, zero);
    if (zero == 0) {
      EXPECT_EQ(every_step, 6 * 2 /*replica groups*/ * 4 * num_params(tiny("llama").model))
          << "2 (H-1)/H = 1";
    }
    for (const int64_t every : {2, 3, 6}) EXPECT_EQ(across(every, zero) * every, every_step) << zero;
  }
}

// The same model trained plainly over two levels of ranks crosses the slow link every step.
TEST(LocalSgdTraffic, SendsOneKthOfWhatHierarchicalDataParallelSends) {
  constexpr int kHosts = 2, kRanks = 2;
  const auto slow_bytes = [&](int64_t every) {
    Config config = several_blocks(local_sgd("llama", "adamw", every));
    config.model.intermediate_size = 64;  // every tensor a multiple of 16 elements: buckets have no gaps
    config.parallel.reduce = "fast";
    config = in_axes(config, {.dp = kHosts * kRanks, .group = kRanks});
    const int64_t params = num_params(config.model),
                  // Losses and tokens by micro-batch and channel, and notes, f64: every step.
        losses = config.train.steps * kHosts * static_cast<int64_t>(MicroBatchLosses::count(8, 2)) * 8;
    std::array<std::unique_ptr<HierarchicalGroup>, kHosts * kRanks> of_rank;
    const auto levels = [&](Groups& groups) {
      const int rank = groups.all->rank(), host = rank / kRanks, place = rank % kRanks;
      World& world = groups.world();
      auto& group = of_rank[static_cast<size_t>(rank)];
      group =
          std::make_unique<HierarchicalGroup>(world.make_group({host * kRanks, host * kRanks + 1}, "host"),
                                              world.make_group({place, kRanks + place}, "hosts"));
      groups.data = groups.losses = group.get();
      if (every == 0) groups.dense.sum = groups.dense.shard = group.get();
    };
    std::atomic<int64_t> bytes = -losses;
    run_layout(config, {.groups = levels, .end = [&](Training& training, TrainState&, World& world) {
                          bytes +=
                              of_rank[static_cast<size_t>(world.rank())]->outer().traffic().total().bytes;
                          if (every > 0) bytes += across_of(training).traffic().total().bytes;
                        }});
    EXPECT_EQ(bytes % (kHosts * 4 * params), 0) << "2 (H-1)/H 4 bytes a parameter and host";
    return bytes.load();
  };
  const int64_t plain = slow_bytes(0);
  EXPECT_GT(plain, 0);
  for (const int64_t every : {1, 2, 3, 6}) EXPECT_EQ(slow_bytes(every) * every, plain) << every;
}

}  // namespace
}  // namespace athanor::tests::local_sgd_traffic_test
