// Law 1: what is forgotten and made again has the same bits. Law 7: and it needs the memory that was planned.
#include "athanor/config/recompute.h"

#include <gtest/gtest.h>

#include <ostream>

#include "athanor/engine/memory_plan.h"
#include "support/tiers.h"
#include "train/small_training.h"

namespace athanor::tests::recompute_test {
namespace {

struct RecomputeCase {
  const char* family;
  const char* compute;
  bool tied;
};

void PrintTo(const RecomputeCase& c, std::ostream* out) {
  *out << c.family << " " << c.compute << (c.tied ? " tied" : "");
}

class RecomputeTest : public ::testing::TestWithParam<RecomputeCase> {};

TEST_P(RecomputeTest, NoPolicyChangesABit) {
  Config config = tiny(GetParam().family);
  config.model.num_hidden_layers = 5;
  config.model.tie_word_embeddings = GetParam().tied;
  config.model.dropout = 0.1;
  config.precision.compute = GetParam().compute;
  const Outcome none = run(config, 1);
  for (const char* policy : {"selective", "full", "group:2", "group:3", "group:5", "full*2,selective",
                             "selective*3,none", "none*1,group:2*3", "full*5"}) {
    config.parallel.recompute = policy;
    EXPECT_TRUE(same_bits(none, run(config, 1, 2))) << policy;
  }
  config.parallel.recompute = "selective";
  config.parallel.reduce = "tree";
  EXPECT_TRUE(same_bits(run(config, 1), run(config, 3))) << "three ranks";
}

INSTANTIATE_TEST_SUITE_P(
    All, RecomputeTest,
    ::testing::Values(RecomputeCase{"gpt2", "f32", true}, RecomputeCase{"gpt2", "bf16", true},
                      RecomputeCase{"llama", "f32", false}, RecomputeCase{"llama", "bf16", true},
                      RecomputeCase{"llama", "f16", false}, RecomputeCase{"moe", "bf16", true},
                      RecomputeCase{"moe_bias", "f32", false}));

// Wide enough that activations, and not the pages of 2 MiB, make the difference.
PlanRequest deep_request(const std::string& family, const std::string& recompute) {
  Config config;
  config.model.model_type = family;
  config.model.num_hidden_layers = 12;
  config.model.hidden_size = 256;
  config.model.num_attention_heads = 4;
  config.model = complete_model(config.model, 512, 512);
  config.data.seq_len = 512;
  config.train.global_batch_size = config.train.micro_batch_size = 8;
  config.parallel.recompute = recompute;
  return {.config = config};
}

uint64_t activations(const std::string& family, const std::string& recompute) {
  return plan_memory(deep_request(family, recompute)).usage.peak[static_cast<size_t>(Category::activations)];
}

TEST(Recompute, EachPolicyKeepsLess) {
  for (const char* family : {"gpt2", "llama"}) {
    const uint64_t none = activations(family, "none"), selective = activations(family, "selective"),
                   full = activations(family, "full");
    EXPECT_LT(selective, none * 7 / 10) << family;
    EXPECT_LT(full, none / 3) << family;
    EXPECT_LT(activations(family, "full*6,selective"), selective) << family;
    EXPECT_GT(activations(family, "full*6,selective"), full) << family;
  }
}

TEST(Recompute, ABudgetTakesAsLittleAsFits) {
  for (const char* family : {"gpt2", "llama"}) {
    const auto bytes = [&](const std::string& policy) {
      return plan_memory(deep_request(family, policy)).usage.reserved_total;
    };
    const auto chosen = [&](uint64_t budget) {
      PlanRequest request = deep_request(family, "none");
      request.config.parallel.recompute_budget = static_cast<int64_t>(budget);
      const MemoryPlan plan = plan_recompute(request);
      EXPECT_LE(plan.usage.reserved_total, budget);
      EXPECT_LE(plan.usage.peak_total, budget);
      return plan.layout.recompute;
    };
    EXPECT_EQ(chosen(bytes("none")), "none");
    EXPECT_EQ(chosen(bytes("selective*4,none")), "selective*4,none");
    EXPECT_EQ(chosen(bytes("selective")), "selective");
    EXPECT_EQ(chosen(bytes("full*7,selective")), "full*7,selective");
    // The peak is where backward begins: what the last block keeps would be made again there anyway.
    EXPECT_EQ(chosen(bytes("full")), "full*11,selective");
    EXPECT_EQ(chosen(bytes("none") - 1), "selective*1,none");
  }
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing";
}

TEST(Recompute, ABudgetThatNothingFitsIsRefusedByName) {
  PlanRequest request = deep_request("llama", "none");
  request.config.parallel.recompute_budget = 1 << 20;
  const std::string error = error_of([&] { plan_recompute(request); });
  EXPECT_TRUE(error.starts_with("parallel.recompute_budget: got 1.0 MiB (1048576), expected at least "))
      << error;
  // What it says is enough, is enough, and one byte less is not.
  const size_t open = error.find('(', error.find("at least"));
  request.config.parallel.recompute_budget = std::stoll(error.substr(open + 1));
  plan_recompute(request);
  --request.config.parallel.recompute_budget;
  EXPECT_THROW(plan_recompute(request), ConfigError);
}

TEST(MemoryPlan, WhatDoesNotFitIsRefusedWithThePolicyThatWould) {
  const MemoryPlan none = plan_memory(deep_request("gpt2", "none"));
  const uint64_t full = plan_memory(deep_request("gpt2", "full")).usage.reserved_total;
  EXPECT_EQ(error_of([&] { check_fits(none, 1, none.usage.peak_total); }), "nothing");
  const std::string error = error_of([&] { check_fits(none, 2, 2 * full); });
  EXPECT_TRUE(error.starts_with("not enough memory: this run needs ")) << error;
  EXPECT_NE(error.find("2 ranks with parameters"), std::string::npos) << error;
  EXPECT_TRUE(error.ends_with("parallel.recompute = \"full*11,selective\" would fit")) << error;
  EXPECT_NE(error_of([&] { check_fits(none, 1, 1 << 20); }).find("train.micro_batch_size = 1"),
            std::string::npos);
}

TEST(MemoryPlan, AbsurdRequestsEndSoon) {
  PlanRequest request = deep_request("gpt2", "none");
  request.stop_bytes = uint64_t{1} << 40;
  request.config.train.micro_batch_size = request.config.train.global_batch_size = 1 << 28;
  const MemoryPlan plan = plan_memory(request);
  EXPECT_FALSE(plan.complete);
  EXPECT_NE(error_of([&] { check_fits(plan, 1, uint64_t{1} << 36); }).find("needs more than"),
            std::string::npos);
  request.config.train.global_batch_size = 1 << 30;
  request.config.train.micro_batch_size = 1;
  EXPECT_TRUE(
      error_of([&] {
        plan_memory(request);
      }).starts_with("train.global_batch_size: got 1073741824 sequences in 1073741824 micro-batches of 1"));
  request.config.train.global_batch_size = 1 << 20;
  for (const char* reduce : {"fast", "tree"}) {
    request.config.parallel.reduce = reduce;
    EXPECT_EQ(plan_memory(request).num_micro_batches, 1 << 20);
  }
}

// More micro-batches than are planned one by one: the rest is computed.
TEST(MemoryPlan, CountsTheBuffersOfManyMicroBatches) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const char* reduce : {"fast", "tree"})
    for (const int64_t micro_batches : {64, 65, 100, 128, 129, 300}) {
      Config config = tiny("llama");
      config.parallel.reduce = reduce;
      config.train.micro_batch_size = 1;
      config.train.global_batch_size = micro_batches;
      config.train.steps = 2;
      config.train.seed = 1;
      uint64_t measured = 0;
      run(config, 1, 1, [&](const Training& training) { measured = training.arena.usage().peak_total; });
      const MemoryPlan plan = plan_memory({config, 2});
      EXPECT_EQ(plan.num_micro_batches, micro_batches);
      EXPECT_EQ(plan.usage.peak_total, measured) << reduce << " " << micro_batches;
    }
}

}  // namespace
}  // namespace athanor::tests::recompute_test
