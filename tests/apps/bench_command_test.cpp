// `athanor-bench`, and `athanor bench step`, as its users meet it: each measurement with sizes that take no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/small_run.h"

namespace athanor::tests::bench_command_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> bench_on_one_thread(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), arguments.front() == "step" ? "bench" : kBench);
  arguments.insert(arguments.end(), {"--threads", "1"});
  return arguments;
}

Json measured(const Workplace& place, std::vector<std::string> arguments) {
  arguments = bench_on_one_thread(std::move(arguments));
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
  EXPECT_THAT(place.output_of(bench_on_one_thread(
                  {"gemm", "--preset", "gpt2-tiny", "--dtype", "f32", "--tokens", "8", "--rounds", "1"})),
              HasSubstr("geometric mean"));  // in f32: oneDNN has bf16 products from AVX-512 on only
}

TEST(Bench, GemmRefusals) {
  const Workplace place;
  expect_refused(place.run(bench_on_one_thread({"gemm", "--preset", "gpt2-123m"})), 2,
                 {"gpt2-123m", "gpt2-124m"});
  expect_refused(place.run(bench_on_one_thread({"gemm", "--dtype", "f8"})), 2, {"--dtype", "f8"});
  expect_refused(place.run(bench_on_one_thread({"gemm", "--tokens", "0"})), 2, {"--tokens", "0"});
  expect_refused(place.run(bench_on_one_thread({"gemm", "--rounds", "-1"})), 2, {"--rounds", "-1"});
  expect_refused(place.run(bench_on_one_thread({"gemm", "--isa", "sparc"})), 1, {"sparc"});
  expect_refused(
      place.run(bench_on_one_thread({"gemm", "--preset", "llama-2-70b", "--tokens", "1000000000"})), 1,
      {"memory", "1000000000x"});
}

TEST(Bench, AttentionMeasuresBothDirections) {
  const Workplace place;
  for (const char* dtype : {"bf16", "f32", "f16"}) {
    const Json json =
        measured(place, {"attention", "--batch", "2", "--seq", "100", "--heads", "6", "--kv-heads", "2",
                         "--head-dim", "24", "--dtype", dtype, "--rounds", "2"});
    EXPECT_EQ(json["seq"], 100);
    EXPECT_EQ(json["kv_heads"], 2);
    EXPECT_LT(json["error"], dtype == std::string("f32") ? 1e-5 : 8e-3);
    EXPECT_GT(json["error"], 0.0);  // rounding: nothing was compared with itself
    for (const char* part : {"forward", "backward"}) {
      expect_series(json[part]["ms"]);
      const double products = part == std::string("forward") ? 2 : 5;
      EXPECT_NEAR(json[part]["gflops"].get<double>() * json[part]["ms"]["median"].get<double>() * 1e6,
                  products * 100 * 101 * 2 * 6 * 24, 1.0);
    }
  }
  EXPECT_EQ(
      measured(place, {"attention", "--seq", "1", "--heads", "1", "--head-dim", "1", "--rounds", "1"})["seq"],
      1);
  expect_refused(place.run(bench_on_one_thread({"attention", "--heads", "6", "--kv-heads", "4"})), 2,
                 {"--kv-heads", "4", "6"});
  expect_refused(place.run(bench_on_one_thread({"attention", "--seq", "0"})), 2, {"--seq", "0"});
  expect_refused(place.run(bench_on_one_thread({"attention", "--seq", "2000000000", "--heads", "1000"})), 1,
                 {"memory"});
}

TEST(Bench, OptimizerMeasuresItsShareOfTheBandwidth) {
  const Workplace place;
  struct Case {
    const char *name, *dtype;
    double bytes;  // of a parameter
  };
  for (const auto& [name, dtype, bytes] : {Case{"adamw", "bf16", 30}, Case{"adamw", "f32", 28},
                                           Case{"sgd", "bf16", 22}, Case{"sgd", "f16", 22}}) {
    const Json json = measured(
        place, {"optimizer", "--params", "300001", "--name", name, "--dtype", dtype, "--rounds", "1"});
    EXPECT_EQ(json["params"], 300001);
    EXPECT_EQ(json["bytes_per_parameter"], bytes);
    EXPECT_NEAR(json["of_copy"],
                json["bandwidth"]["median"].get<double>() / json["copy_bandwidth"]["median"].get<double>(),
                1e-9);
    expect_series(json["bandwidth"]);
    expect_series(json["copy_bandwidth"]);
  }
  EXPECT_THAT(place.output_of(bench_on_one_thread({"optimizer", "--params", "1", "--rounds", "1"})),
              HasSubstr("GB/s"));
  expect_refused(place.run(bench_on_one_thread({"optimizer", "--params", "0"})), 2, {"--params", "0"});
  expect_refused(place.run(bench_on_one_thread({"optimizer", "--name", "lion"})), 2, {"--name", "lion"});
}

TEST(Bench, DataSetsTheLoaderBesideTheStep) {
  const Workplace place;
  const Json json = measured(place, {"data", "synthetic", "--preset", "llama-tiny", "--tokens", "50000",
                                     "--batch", "2", "--seq", "32", "--dtype", "f32", "--rounds", "2"});
  expect_series(json["ns_per_token"]);
  expect_series(json["step_ns_per_token"]);
  EXPECT_GE(json["dataset_tokens"], 49000);
  EXPECT_LT(json["percent_of_step"], 100.0);
  EXPECT_GE(json["percent_waited"], 0.0);
  // Of a run: two channels, several micro-batches.
  make_small_run(place);
  const Json of_run = measured(place, {"data", "run.toml", "--rounds", "2"});
  EXPECT_EQ(of_run["batch"], 10);
  EXPECT_EQ(of_run["seq"], 32);
  expect_refused(place.run(bench_on_one_thread({"data", "run.toml", "--seq", "8"})), 2,
                 {"--seq", "run.toml"});
  expect_refused(place.run(bench_on_one_thread({"data", "nowhere.toml"})), 2, {"nowhere.toml"});
  expect_refused(place.run(bench_on_one_thread({"data", "--tokens", "10", "--preset", "llama-tiny"})), 1,
                 {"random"});
}

TEST(Bench, CheckpointLeavesNothingBehind) {
  const Workplace place;
  place.write("here/note", "");
  const Json json =
      measured(place, {"checkpoint", "--preset", "llama-tiny", "--folder", "here", "--rounds", "1"});
  EXPECT_EQ(json["bytes"], json["params"].get<double>() * 12);
  for (const char* part : {"write", "verify", "read"}) {
    expect_series(json[part]["rate"]);
    EXPECT_GT(json[part]["over_plain"], 0.0);
  }
  EXPECT_EQ(place.list("here"), std::vector<std::string>{"note"});
  expect_refused(place.run(bench_on_one_thread({"checkpoint", "--folder", "nowhere"})), 1, {"nowhere"});
  expect_refused(place.run(bench_on_one_thread({"checkpoint", "--preset", "gpt3"})), 2, {"gpt3"});
}

TEST(Bench, StepTakesAnArchitectureAndRefusesOddSizes) {
  const Workplace place;
  expect_refused(place.run(bench_on_one_thread({"step", "--arch", "mamba"})), 2, {"--arch", "mamba"});
  expect_refused(place.run(bench_on_one_thread({"step", "--arch", "llama", "--preset", "gpt2-tiny"})), 2,
                 {"--arch", "--preset"});
  expect_refused(place.run(bench_on_one_thread({"step", "--batch", "0"})), 2, {"--batch", "0"});
  expect_refused(place.run(bench_on_one_thread({"step", "--steps", "-3"})), 2, {"--steps", "-3"});
  const auto with_batch = [&](const char* batch) {
    return place.run(
        bench_on_one_thread({"step", "--preset", "gpt2-tiny", "--seq", "100000", "--batch", batch}));
  };
  expect_refused(with_batch("1000000"), 2, {"--batch", "1000000", "100000"});
  expect_refused(with_batch("1000"), 1, {"memory"});
  const Outcome outcome =
      place.run(bench_on_one_thread({"step", "--preset", "gpt2-tiny", "--batch", "1", "--seq", "16",
                                     "--dtype", "f32", "--steps", "1", "--profile", "--json"}));
  EXPECT_EQ(Json::parse(outcome.out)["preset"], "gpt2-tiny");
  EXPECT_THAT(outcome.err, HasSubstr("gemm.nt"));
}

}  // namespace
}  // namespace athanor::tests::bench_command_test
