// Parameter servers as the trainer lays them out: f16, and the bytes. That synchronous ones are ZeRO 1, also after a
// checkpoint, and their memory plan are rows of train/layouts.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/engine/micro_batch.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::served_layouts_test {
namespace {

// Which of the not-a-numbers an overflow leaves is the compiler's choice.
TEST(ServedLayouts, InF16AndCompressedAreDataParallelism) {
  for (const char* kind : {"none", "int8", "bf16"})
    for (const char* compute : {"f32", "f16"})
      for (const char* family : {"llama", "moe"}) {
        Config config = uneven(family, "adamw");
        config.compression.method = kind;
        config.precision.compute = compute;
        config.precision.loss_scale = 16777216.0;  // the first steps overflow
        config.train.steps = 14;
        const VerifyRun expected = run_layout(in_axes(config, {.dp = 2, .cp = 2, .zero = 1})),
                        got = run_layout(in_axes(config, {.dp = 2, .cp = 2, .servers = 2}));
        const std::string what = fmt::format("{} {} {}", kind, compute, family);
        const bool half = std::string(compute) == "f16";
        EXPECT_EQ(std::isfinite(expected.grad_norms.front()), !half);
        EXPECT_TRUE(std::isfinite(expected.grad_norms.back()));
        EXPECT_EQ(got.losses, expected.losses) << what;
        EXPECT_EQ(got.grad_norms.size(), expected.grad_norms.size()) << what;
        for (size_t i = 0; i < expected.grad_norms.size(); ++i)
          if (std::isfinite(expected.grad_norms[i])) {
            EXPECT_EQ(got.grad_norms.at(i), expected.grad_norms[i]) << what;
          } else {
            EXPECT_FALSE(std::isfinite(got.grad_norms.at(i))) << what;
          }
        EXPECT_EQ(got.weights, expected.weights) << what;
        EXPECT_EQ(got.state, expected.state) << what;
        EXPECT_TRUE(half || got.gradients == expected.gradients) << what;
      }
}

// docs/parallelism.md.
TEST(ServedLayouts, BytesAreThoseOfTheFormulas) {
  for (const char* family : {"gpt2", "moe"})
    for (Axes axes : {Axes{.dp = 2},
                      {.dp = 2, .recompute = "selective"},
                      {.dp = 2, .cp = 2},
                      {.dp = 2, .cp = 2, .cp_method = "ulysses"}}) {
      axes.servers = 2;
      Config config = in_axes(uneven(family, "adamw"), axes);
      config.train.steps = 4;
      const auto check_bytes = [&](Training& training, TrainState&, World& world) {
        const bool serves = training.role->serves();
        const ParallelConfig& p = config.parallel;
        const int64_t steps = config.train.steps, W = p.dp * p.cp, S = config.parameter_server.servers,
                      losses = 8 * static_cast<int64_t>(
                                       MicroBatchLosses::count(micro_batches_of_step(config.train), 2));
        const Buckets buckets(training.model->weights(), {.rows = static_cast<int>(S),
                                                          .bucket_bytes = p.bucket_bytes,
                                                          .by_unit = false,
                                                          .uses_apart = true,
                                                          .section = {}});
        int64_t with_values = 0;
        for (size_t b = 0; b < buckets.list.size(); ++b)
          if (!buckets.params(b).empty()) with_values += buckets.list[b].layout.total();
        const bool is_first = world.rank() == W;
        const int64_t bytes = serves ? (steps + 1) * W * (4 * with_values / S + 64 + (is_first ? losses : 0))
                                     : steps * (4 * buckets.total + 64 * S + losses);
        const Traffic traffic = training.groups().exchange->traffic();
        EXPECT_EQ(traffic.of(Collective::send).bytes, bytes) << text_of(axes) << " rank " << world.rank();
        EXPECT_EQ(traffic.total().bytes, bytes) << text_of(axes) << " rank " << world.rank();
      };
      run_layout(config, {.end = check_bytes});
    }
}

}  // namespace
}  // namespace athanor::tests::served_layouts_test
