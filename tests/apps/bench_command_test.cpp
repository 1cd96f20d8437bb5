// `athanor bench` as its users meet it: each measurement with sizes that take no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/small_run.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--threads", "1"});
  return arguments;
}

Json measured(const Workplace& place, std::vector<std::string> arguments) {
  arguments = bench(std::move(arguments));
  arguments.emplace_back("--json");
  return Json::parse(place.output_of(arguments));
}

void expect_series(const Json& series) {
  EXPECT_GT(series.at("min"), 0.0) << series;
  EXPECT_LE(series.at("min"), series.at("median")) << series;
  EXPECT_LE(series.at("median"), series.at("max")) << series;
  EXPECT_GE(series.at("spread"), 0.0) << series;
}

TEST(Bench, GemmMeasuresEveryProductOfAPreset) {
  const Workplace place;
  for (const char* dtype : {"bf16", "f32"}) {
    const Json json = measured(
        place, {"gemm", "--preset", "llama-tiny", "--tokens", "40", "--rounds", "2", "--dtype", dtype});
    EXPECT_EQ(json["preset"], "llama-tiny");
    EXPECT_EQ(json["dtype"], dtype);
    // q and o are 256 x 256, k and v 128 x 256; gate and up are alike: five different layers.
    ASSERT_EQ(json["products"].size(), 5u * 3);
    std::vector<std::string> uses;
    for (const Json& product : json["products"]) {
      if (product["product"] == "nt")
        for (const Json& use : product["uses"]) uses.push_back(use);
      EXPECT_EQ(product[product["product"] == "tn" ? "k" : "m"], 40);
      expect_series(product["ms"]);
      expect_series(product["ceiling_gflops"]);
      EXPECT_LT(product["error"], 4e-3);
      EXPECT_NEAR(product["gflops"].get<double>() * product["ms"]["median"].get<double>() * 1e6,
                  2.0 * product["m"].get<double>() * product["n"].get<double>() * product["k"].get<double>(),
                  1.0);
    }
    EXPECT_THAT(uses, ::testing::UnorderedElementsAre("q", "k", "v", "o", "gate", "up", "down", "head"));
  }
  EXPECT_THAT(place.output_of(bench({"gemm", "--preset", "gpt2-tiny", "--tokens", "8", "--rounds", "1"})),
              HasSubstr("geometric mean"));
}

TEST(Bench, GemmRefusals) {
  const Workplace place;
  expect_refused(place.run(bench({"gemm", "--preset", "gpt2-123m"})), 2, {"gpt2-123m", "gpt2-124m"});
  expect_refused(place.run(bench({"gemm", "--dtype", "f8"})), 2, {"--dtype", "f8"});
  expect_refused(place.run(bench({"gemm", "--tokens", "0"})), 2, {"--tokens", "0"});
  expect_refused(place.run(bench({"gemm", "--rounds", "-1"})), 2, {"--rounds", "-1"});
  expect_refused(place.run(bench({"gemm", "--isa", "sparc"})), 1, {"sparc"});
  expect_refused(place.run(bench({"gemm", "--preset", "llama-2-70b", "--tokens", "1000000000"})), 1,
                 {"memory", "1000000000x"});
}

}  // namespace
}  // namespace athanor
