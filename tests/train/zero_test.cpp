// Law 1 and law 5 for ZeRO: every stage on any number of ranks computes what one process computes.
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "train/virtual_ranks.h"
#include "train/wide_training.h"

namespace athanor::tests::zero_test {
namespace {

class ZeroTest : public ::testing::TestWithParam<WideCase> {};

TEST_P(ZeroTest, TreeReductionGivesTheBitsOfOneProcess) {
  Config config = wide(GetParam());
  config.parallel.reduce = "tree";
  const Outcome one = run(config, 1);
  for (const int stage : {1, 2, 3})
    for (const int ranks : {2, 3, 4, 5}) {
      config.parallel.zero_stage = stage;
      EXPECT_TRUE(same_bits(one, run(config, ranks))) << "zero " << stage << ", " << ranks << " ranks";
    }
}

TEST_P(ZeroTest, FastReductionGivesTheBitsOfItsOrder) {
  Config config = wide(GetParam());
  const auto stage = [&config](int zero, int ranks) {
    config.parallel.zero_stage = zero;
    return run(config, ranks);
  };
  for (const int ranks : {2, 3, 4}) {  // five micro-batches: uneven
    EXPECT_TRUE(same_bits(stage(0, ranks), stage(1, ranks))) << ranks;
    EXPECT_TRUE(same_bits(stage(2, ranks), stage(3, ranks))) << ranks;
  }
  const Outcome whole = stage(0, 5);  // one micro-batch a rank: one order
  for (const int zero : {1, 2, 3}) EXPECT_TRUE(same_bits(whole, stage(zero, 5))) << zero;
  const Outcome one = stage(0, 1), many = stage(2, 2);
  const double tolerance = std::string(GetParam().compute) == "f32" ? 1e-5 : 5e-2;
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(many.steps[i].loss, one.steps[i].loss, tolerance * one.steps[i].loss);
    EXPECT_NEAR(many.steps[i].grad_norm, one.steps[i].grad_norm, tolerance * one.steps[i].grad_norm);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroTest,
                         ::testing::Values(WideCase{"llama", "f32", 0.0, "adamw", "none"},
                                           WideCase{"llama", "bf16", 0.1, "sgd", "full"},
                                           WideCase{"gpt2", "f32", 0.1, "sgd", "none"},
                                           WideCase{"gpt2", "bf16", 0.0, "adamw", "selective"},
                                           WideCase{"gpt2", "f16", 0.1, "adamw", "group:2"}));

std::string digest_after(Config config, const std::vector<Link>& chain) {
  const std::string folder = temporary_path("zero_chain");
  config.train.steps = 2 * std::ssize(chain);
  train_chain(config, chain, folder);
  const Checkpoint last = Checkpoint::open(system_env(), folder + "/" + std::to_string(config.train.steps));
  last.verify();
  return last.digest();
}

TEST(ZeroCheckpoint, AnyStageOnAnyRanksResumesAnyOther) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* compute : {"f32", "bf16"}) {
      Config config = wide({family, compute, 0.1, "adamw", "none"});
      config.parallel.reduce = "tree";
      const std::string one = digest_after(config, {{1, 2}, {1, 2}, {1, 2}, {1, 2}});
      EXPECT_EQ(one, digest_after(config, {{4, 2, 3}, {1, 2}, {3, 2, 2}, {4, 2, 3}})) << family << compute;
      EXPECT_EQ(one, digest_after(config, {{2, 2, 1}, {5, 2, 3}, {2, 2, 3}, {3, 2, 1}})) << family << compute;
    }
}

}  // namespace
}  // namespace athanor::tests::zero_test
