// Law 1 and law 5 for ZeRO: every stage on any number of ranks computes what one process computes.
#include <gtest/gtest.h>

#include <ostream>

#include "train/small_training.h"

namespace athanor {
namespace {

struct Case {
  const char* family;
  const char* compute;
  double dropout;
  const char* optimizer;
  const char* recompute;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.family << " " << c.compute << " " << c.optimizer << " " << c.recompute
       << (c.dropout > 0 ? " dropout" : "");
}

// Matrices of several norm blocks, so that parameters are cut.
Config wide(const Case& c) {
  Config config = tiny(c.family);
  config.model.width = 48;
  config.model.ffn_width = 100;
  config.model.head_dim = 12;
  config.precision.compute = c.compute;
  config.model.dropout = c.dropout;
  config.optimizer.name = c.optimizer;
  config.parallel.recompute = c.recompute;
  config.parallel.bucket_bytes = 32 << 10;
  return config;
}

class ZeroTest : public ::testing::TestWithParam<Case> {};

TEST_P(ZeroTest, TreeReductionGivesTheBitsOfOneProcess) {
  Config config = wide(GetParam());
  config.parallel.reduce = "tree";
  const Outcome one = run(config, 1);
  for (const int stage : {1, 2, 3})
    for (const int ranks : {2, 3, 4, 5}) {
      config.parallel.zero = stage;
      EXPECT_TRUE(same_bits(one, run(config, ranks))) << "zero " << stage << ", " << ranks << " ranks";
    }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroTest,
                         ::testing::Values(Case{"llama", "f32", 0.0, "adamw", "none"},
                                           Case{"llama", "bf16", 0.1, "sgd", "full"},
                                           Case{"gpt2", "f32", 0.1, "sgd", "none"},
                                           Case{"gpt2", "bf16", 0.0, "adamw", "selective"},
                                           Case{"gpt2", "f16", 0.1, "adamw", "group:2"}));

}  // namespace
}  // namespace athanor
