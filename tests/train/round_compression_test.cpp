// Compressed gradients with ZeRO 2 and 3, whose every round of micro-batches is sent: the bytes. compression_test.cpp holds
// them against their definition; the other axes, checkpoints and plans are rows of train/layouts.
#include <gtest/gtest.h>

#include "athanor/parallel/compression/compressed_gradients.h"
#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::round_compression_test {
namespace {

const char* const kKinds[] = {"bf16", "int8"};

int64_t bytes_of_gradients(Config config, int64_t micro_batches) {
  config.train.global_batch_size = micro_batches * config.train.micro_batch_size;
  int64_t bytes = 0;
  run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
               finish_gathers(training, config);
               if (world.rank() == 0) bytes = world.all().traffic().total().bytes;
             }});
  return bytes;
}

// A round of them is a step with ZeRO 1: what is beside them (values, norms, losses) is sent once.
TEST(RoundCompression, SendsTheBytesOfZeroOneEveryRound) {
  constexpr int kRanks = 3;
  for (const char* kind : kKinds) {
    const Config two = in_axes(compressed_blocks(kind, "gpt2"), {.dp = kRanks, .zero = 2});
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

// One sum a step is another function.
TEST(RoundCompression, IsNotZeroOne) {
  for (const char* kind : kKinds) {
    const Config config = compressed_blocks(kind);
    EXPECT_FALSE(compare(run_layout(in_axes(config, {.dp = 2, .zero = 1})),
                         run_layout(in_axes(config, {.dp = 2, .zero = 2})))
                     .bitwise)
        << kind;
  }
}

}  // namespace
}  // namespace athanor::tests::round_compression_test
