// `athanor-bench compression`: every way of sending gradients, beside the one that sends them whole.
#include <gtest/gtest.h>

#include <map>

#include "apps/small_run.h"

namespace athanor::tests::bench_compression_test {
namespace {

TEST(BenchCompression, ComparesEveryWayWithPlainSums) {
  const Workplace place;
  make_small_run(place);
  const Json report =
      Json::parse(place.output_of({kBench, "compression", "run.toml", "--set", "parallel.reduce=fast", "-n",
                                   "4", "--steps", "10", "--sync-every", "5", "--json"}));
  std::map<std::string, Json> results;
  for (const Json& result : report["results"]) results[result["gradients"].get<std::string>()] = result;
  ASSERT_EQ(results.size(), 9u);
  const auto ratio = [&](const char* mode) { return results.at(mode)["bytes_ratio"].get<double>(); };
  const auto between = [&](const char* mode) {
    return results.at(mode)["bytes_between_groups"].get<double>();
  };
  for (const auto& [mode, result] : results)
    EXPECT_NEAR(result["loss_ratio"].get<double>(), 1.0, 0.2) << mode;
  EXPECT_EQ(ratio("none"), 1.0);
  // Halves and quarters, and what losses, norms and scales add.
  EXPECT_NEAR(ratio("bf16"), 0.5, 0.05);
  EXPECT_NEAR(ratio("int8"), 0.25, 0.05);
  for (const char* mode : {"topk", "powersgd", "onebit-adam"}) EXPECT_LT(ratio(mode), 1.0) << mode;
  EXPECT_EQ(between("none"), 0.0);
  EXPECT_NEAR(between("two-speed bf16") / between("two-speed"), 0.5, 0.05);
  EXPECT_NEAR(between("two-speed int8") / between("two-speed"), 0.25, 0.05);
}

}  // namespace
}  // namespace athanor::tests::bench_compression_test
