// Compressed gradients with ZeRO 2 and 3, whose every round of micro-batches is sent (law 1: compression_test.cpp holds them
// against their definition): bytes, memory, checkpoints, and the other axes beside them.
#include <gtest/gtest.h>

#include <mutex>

#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/train/plan/memory_plan.h"
#include "train/compressed_training.h"
#include "train/saved_run.h"

namespace athanor::tests::round_compression_test {
namespace {

const char* const kCodesOfRounds[] = {"bf16", "int8"};

Config compressed_rounds(const std::string& kind, int zero, int dp, const std::string& family = "llama") {
  Config config = compressed_blocks(kind, family);
  config.parallel.dp = dp;
  config.parallel.zero_stage = zero;
  return config;
}

int64_t bytes_of_gradients(Config config, int64_t micro_batches) {
  config.train.global_batch_size = micro_batches * config.train.micro_batch_size;
  Group* group = nullptr;
  int64_t bytes = 0;
  std::mutex mutex;
  run_layout(config, {.lay_out =
                          [&](Training& training, Mesh& mesh) {
                            training.lay_out(mesh);
                            const std::lock_guard lock(mutex);
                            if (mesh.world().rank() == 0) group = &data_group(mesh);
                          },
                      .end =
                          [&](Training& training, TrainState&, World& world) {
                            for (const auto& param : training.model->params())
                              static_cast<void>(param->value());  // what is on its way
                            const std::lock_guard lock(mutex);
                            if (world.rank() == 0) bytes = group->traffic().total().bytes;
                          }});
  return bytes;
}

// A round of them is a step with ZeRO 1: what is beside them (values, norms, losses) is sent once.
TEST(RoundCompression, SendsTheBytesOfZeroOneEveryRound) {
  constexpr int kRanks = 3;
  for (const char* kind : kCodesOfRounds) {
    const Config two = compressed_rounds(kind, 2, kRanks, "gpt2");
    Config one = two;
    one.parallel.zero_stage = 1;
    const auto losses = [&](int64_t micro_batches) {  // f64, by micro-batch and channel
      return bytes_of_gradients(one, micro_batches) - bytes_of_gradients(one, kRanks);
    };
    const int64_t round = bytes_of_gradients(two, kRanks);
    EXPECT_EQ(round, bytes_of_gradients(one, kRanks)) << kind;
    const int64_t more = bytes_of_gradients(two, 2 * kRanks) - round - losses(2 * kRanks);
    EXPECT_EQ(bytes_of_gradients(two, 3 * kRanks) - round - losses(3 * kRanks), 2 * more) << kind;
    Config plain = two;
    plain.compression.method = "none";
    const int64_t whole = bytes_of_gradients(plain, 2 * kRanks) - bytes_of_gradients(plain, kRanks);
    EXPECT_GT(more, 0) << kind;
    EXPECT_LT(more, (std::string(kind) == "bf16" ? 0.7 : 0.6) * static_cast<double>(whole)) << kind;
    // The formula of docs/compression.md, from the layout of the buckets.
    const auto model = make_model(two.model);
    const Buckets buckets(model->weights(), {.rows = kRanks, .bucket_bytes = two.parallel.bucket_bytes});
    int64_t of_round = 0;
    for (const Bucket& bucket : buckets.list) {
      int64_t most = 0, exact = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        int64_t blocks = 0;
        for (size_t slot = 0; slot < bucket.weights.size(); ++slot)
          if (bucket.weights[slot]->param().is_matrix())
            blocks += (bucket.layout.piece(slot, rank).count() + kCodeBlock - 1) / kCodeBlock;
        most = std::max(most, blocks);
      }
      for (const Weight* weight : bucket.weights)
        if (!weight->param().is_matrix()) exact += weight->param().numel();
      of_round += (kRanks - 1) * most * (std::string(kind) == "bf16" ? 512 : 260);
      of_round += 2 * (kRanks - 1) * ((exact + kRanks - 1) / kRanks) * 4;
    }
    EXPECT_EQ(more, two.train.steps * of_round) << kind;
  }
}

TEST(RoundCompression, ThePlanIsTheMeasuredPeak) {
  for (const char* kind : kCodesOfRounds)
    for (const int zero : {2, 3}) {
      Config config = compressed_rounds(kind, zero, 3, "gpt2");
      config.precision.compute = "bf16";
      config.train.steps = 2;
      run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                   const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                   EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total)
                       << kind << " zero " << zero;
                   EXPECT_EQ(plan.usage.peak, training.arena.usage().peak);
                 }});
    }
}

TEST(RoundCompression, ResumesToTheSameBits) {
  for (const char* kind : kCodesOfRounds)
    for (const int zero : {2, 3}) {
      const Config config = compressed_rounds(kind, zero, 3);
      const VerifyRun whole = run_layout(config);
      const VerifyRun rest = resume(config, save_after(config, 2, "round_compression"));
      EXPECT_EQ(rest.weights, whole.weights) << kind << " zero " << zero;
      EXPECT_EQ(rest.losses.back(), whole.losses.back()) << kind << " zero " << zero;
      EXPECT_EQ(rest.state, whole.state) << kind << " zero " << zero;
    }
}

// Stages 2 and 3 are one function, a pipeline changes no bit of it; with tp, cp and ep ranks have other gradients to
// code, so there they are near the uncompressed.
TEST(RoundCompression, GoesWithTheOtherAxes) {
  for (const char* kind : kCodesOfRounds) {
    Config config = compressed_rounds(kind, 2, 2);
    const VerifyRun flat = run_layout(config);
    config.parallel.zero_stage = 3;
    EXPECT_TRUE(compare(run_layout(config), flat).bitwise) << kind;
    config.parallel.pp = 2;
    EXPECT_TRUE(compare(run_layout(config), flat).bitwise) << kind << ", a pipeline";
    config.parallel.zero_stage = 1;
    config.parallel.pp = 1;
    EXPECT_FALSE(compare(run_layout(config), flat).bitwise) << kind << ": one sum a step is another function";
  }
  for (const char* kind : kCodesOfRounds) {
    const auto expect_near = [&](const char* family, auto set) {
      Config config = compressed_rounds(kind, 3, 2, family);
      if (config.model.num_experts > 0) config.model.num_experts = 8;
      set(config.parallel);
      const VerifyRun run = run_layout(config);
      config.compression.method = "none";
      const VerifyRun plain = run_layout(config);
      EXPECT_EQ(run.losses[0], plain.losses[0]) << kind << " " << family;
      EXPECT_NEAR(run.losses.back(), plain.losses.back(), 0.002 * plain.losses.back())
          << kind << " " << family;
      EXPECT_FALSE(compare(run, plain).bitwise) << kind << " " << family << ": nothing was compressed";
    };
    expect_near("llama", [](ParallelConfig& p) { p.tp = 2, p.sp = true; });
    expect_near("gpt2", [](ParallelConfig& p) { p.cp = 2; });
    expect_near("moe_bias", [](ParallelConfig& p) { p.ep = 2; });
    expect_near("moe_bias", [](ParallelConfig& p) { p.dp = 4, p.ep = 2, p.pp = 2; });
  }
}

}  // namespace
}  // namespace athanor::tests::round_compression_test
