// Weights that are packed once a step give the bits of weights packed for every product.
#include <gtest/gtest.h>

#include "train/small_training.h"

namespace athanor::tests::pack_weights_test {
namespace {

TEST(PackWeights, ChangesNoBit) {
  for (const char* family : {"gpt2", "llama", "moe"})
    for (const char* compute : {"bf16", "f32"}) {
      Config config = tiny(family);
      config.model.tie_word_embeddings = true;
      config.precision.compute = compute;
      config.train.micro_batch_size = 1;
      config.train.global_batch_size = 5;
      const auto outcome = [&](bool pack, int ranks) {
        config.train.pack_weights = pack;
        return run(config, ranks);
      };
      EXPECT_TRUE(same_bits(outcome(false, 1), outcome(true, 1))) << family << " " << compute;
      config.train.global_batch_size = 8;
      config.parallel.zero_stage = 2;
      EXPECT_TRUE(same_bits(outcome(false, 2), outcome(true, 2)))
          << family << " " << compute << ", two ranks";
    }
}

}  // namespace
}  // namespace athanor::tests::pack_weights_test
