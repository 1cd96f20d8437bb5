// Law 1 for compressed gradients: N ranks train as their definition does, one process with N virtual ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/tiers.h"
#include "train/compressed_training.h"
#include "train/defined_sums.h"
#include "train/layouts/layout_case.h"
#include "train/saved_run.h"

namespace athanor::tests::compression_test {
namespace {

std::string text_of_run(const Config& config) {
  return fmt::format("{} {} {} {}", config.compression.method, config.model.model_type, config.optimizer.name,
                     text_of(config));
}

void expect_defined_run(const Config& config, const Tolerance& within = {}) {
  expect_defined(run_layout(config), define_run(config, static_cast<int>(config.parallel.dp)), within,
                 text_of_run(config));
}

// That a run is not what such a config defines: otherwise the comparison sees nothing of what makes the two differ.
void expect_other(const VerifyRun& got, const Config& config, double least, const char* why) {
  EXPECT_GT(weights_gap(got.weights, define_run(config, static_cast<int>(config.parallel.dp)).weights), least)
      << text_of_run(config) << ": " << why;
}

TEST(Compression, TrainsAsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* kind : {"bf16", "int8", "topk"}) {
    for (const char* optimizer : {"adamw", "sgd"}) {
      expect_defined_run(in_axes(compressed(kind, "llama", optimizer), {.dp = 2}));
      expect_defined_run(in_axes(compressed(kind, "gpt2", optimizer), {.dp = 3}));  // tied embeddings
    }
    expect_defined_run(in_axes(several_blocks(compressed(kind)), {.dp = 3, .zero = 1}));
  }
  for (const char* optimizer : {"adamw", "sgd"})
    expect_defined_run(in_axes(compressed("powersgd", "llama", optimizer), {.dp = 3}), {1e-4, 1e-4, 1e-4});
}

// ZeRO 2 and 3: every round of micro-batches is sent, of uneven ones the last with nothing but what is owed.
TEST(Compression, OfRoundsIsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const int zero : {2, 3})
    for (const char* kind : {"bf16", "int8"})
      for (const bool feedback : {true, false}) {
        Config base =
            several_blocks(compressed(kind, zero == 2 ? "gpt2" : "llama", feedback ? "adamw" : "sgd"));
        Config other = base;
        base.compression.error_feedback = feedback;
        other.compression.error_feedback = !feedback;
        for (const int ranks : {feedback ? 2 : 5, 3})
          expect_defined_run(in_axes(base, {.dp = ranks, .zero = zero}));
        const VerifyRun got = run_layout(in_axes(other, {.dp = 2, .zero = zero}));
        expect_other(got, in_axes(base, {.dp = 2, .zero = zero}), 1e-6, "what is owed shows");
        expect_other(got, in_axes(other, {.dp = 2, .zero = 1}), 1e-6, "so do rounds");
      }
}

// f16: what is owed is of the loss, while its scale grows, and nothing of a step that overflows.
TEST(Compression, LossScalesMakeNoDifference) {
  for (const std::string kind : {"bf16", "int8", "topk", "powersgd"})
    for (const int zero : {0, 1, 3})
      for (const bool overflows : {false, true}) {
        if (zero == 3 && (kind == "topk" || kind == "powersgd")) continue;
        Config config = in_axes(compressed(kind, "llama", "sgd"), {.dp = 2, .zero = zero});
        config.precision.compute = "f16";
        config.precision.loss_scale = overflows ? 4194304 : 256;
        config.precision.loss_scale_window = 2;
        config.train.steps = 10;
        const double part = kind == "powersgd" ? 2e-3 : 0.0;
        std::vector<double> scales = {config.precision.loss_scale};
        const VerifyRun got =
            run_layout(config, {.after_step = [&](Training&, TrainState& state, World& world) {
                         if (world.rank() == 0) scales.push_back(state.loss_scale.scale);
                       }});
        const DefinedRun expected = define_run(config, 2);
        expect_defined(got, expected, {part, part, part}, text_of_run(config));
        scales.pop_back();
        EXPECT_EQ(scales, expected.loss_scales) << text_of_run(config);
        const auto& norms = expected.grad_norms;
        const auto applied =
            std::count_if(norms.begin(), norms.end(), [](double norm) { return std::isfinite(norm); });
        EXPECT_GE(applied, 2) << "steps after those that overflow";
        EXPECT_EQ(applied < config.train.steps, overflows);
        EXPECT_EQ(expected.loss_scales.back() == 16 * 256.0, !overflows);
      }
}

constexpr Tolerance kNearly{.losses = 1e-5, .norms = 1e-4, .weights = 1e-5};

// With experts on other ranks: each of their matrices has factors of its own, summed over the ranks that have it.
TEST(Compression, OfExpertsIsItsDefinedRun) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    Config config = eight_experts(compressed("powersgd", "moe", optimizer));
    config.optimizer.lr = 1e-3;
    config.train.global_batch_size = 8;  // four micro-batches
    expect_defined_run(in_axes(config, {.dp = 2}), {1e-4, 1e-4, 1e-4});
    config = in_axes(config, {.dp = 4, .ep = 2});
    const VerifyRun got = run_layout(config);
    expect_defined(got, define_run(config, 4), kNearly, optimizer);
    config.compression.error_feedback = false;
    expect_other(got, config, 1e-5, "what is forgotten shows");
  }
}

// What tensor parallelism leaves a rank of a matrix has factors of its own; what it leaves whole has the same ones on
// every rank, which run_layout holds against each other. Factors of whole matrices are another function.
TEST(Compression, OfPartsOfMatricesIsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* optimizer : {"adamw", "sgd"})
    for (const auto& [zero, sp] : {std::pair(0, false), {0, true}, {1, false}}) {
      Config config =
          in_axes(compressed("powersgd", "llama", optimizer), {.dp = 2, .tp = 2, .zero = zero, .sp = sp});
      config.optimizer.lr = 1e-3;
      const VerifyRun got = run_layout(config);
      expect_defined(got, define_run(config, 2), kNearly, text_of_run(config));
      config.parallel.tp = 1;
      expect_other(got, config, 1e-5, "factors of whole matrices");
    }
}

// Hybrid sharding: shard groups sum exactly, and what they exchange is compressed as that of so many ranks with zero = 0.
// Seven micro-batches: uneven. Stages 2 and 3 add up rounds; of one micro-batch a rank that is the order of the ranks, too.
TEST(Compression, OfHybridShardsIsItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  const auto expect_groups = [](Config config, int dp, int shard, int zero = 1) {
    config.train.global_batch_size = zero == 1 ? 14 : 2 * dp;
    config = several_blocks(config);
    const VerifyRun got = run_layout(in_axes(config, {.dp = dp, .zero = zero, .shard = shard}));
    const Config defined = in_axes(config, {.dp = dp, .zero = 1, .shard = shard});
    expect_defined(got, define_run(defined, dp), {}, fmt::format("{}, zero {}", text_of_run(defined), zero));
    Config forgotten = defined;
    forgotten.compression.error_feedback = false;
    expect_other(got, forgotten, 1e-6, "what is owed");
    expect_other(got, in_axes(config, {.dp = dp, .zero = 1}), 1e-6, "every rank compresses");
  };
  for (const char* kind : {"bf16", "int8"}) {
    expect_groups(compressed(kind, "llama", "sgd"), 4, 2);
    expect_groups(compressed(kind, "gpt2", "adamw"), 6, 2);  // tied embeddings
    expect_groups(compressed(kind, "llama", "adamw"), 6, 3);
    expect_groups(compressed(kind, "gpt2", "sgd"), 4, 2, 2);
    expect_groups(compressed(kind, "llama", "adamw"), 6, 2, 3);
  }
}

// Experts of which a shard group has one copy are exchanged by all that have them, of several by the groups.
TEST(Compression, OfExpertsInHybridShardsIsItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* kind : {"bf16", "int8"})
    for (const auto& [dp, shard, zero] : {std::tuple(4, 2, 1), {8, 4, 1}, {8, 4, 3}}) {
      Config config = eight_experts(compressed(kind, "moe"));
      config.optimizer.lr = 1e-3;
      config.train.global_batch_size = 16;  // eight micro-batches
      config = in_axes(config, {.dp = dp, .ep = 2, .zero = zero, .shard = shard});
      const VerifyRun got = run_layout(config);
      expect_defined(got, define_run(config, dp), {.losses = 1e-5, .norms = 1e-4, .weights = 1e-6},
                     text_of_run(config));
      Config forgotten = config;
      forgotten.compression.error_feedback = false;
      expect_other(got, forgotten, 1e-5, "what is owed");
      expect_other(got, in_axes(config, {.dp = dp, .ep = 2}), 1e-5, "every rank compresses");
    }
}

// The definition with and without error feedback: a run is equal to its own and far from the other. What is forgotten
// costs loss where much is left out.
TEST(Compression, ForgottenErrorFeedbackShows) {
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      const Config config = in_axes(compressed(kind, "llama", optimizer), {.dp = 2});
      Config forgotten = config;
      forgotten.compression.error_feedback = false;
      expect_defined_run(forgotten);
      expect_other(run_layout(forgotten), config, 1e-6, "error feedback");
    }
  Config config = in_axes(compressed("topk", "llama", "sgd"), {.dp = 2});
  config.train.steps = 60;
  const double with = run_layout(config).losses.back();
  config.compression.error_feedback = false;
  EXPECT_LT(with, run_layout(config).losses.back());
}

TEST(Compression, OfTwoRanksIsSome) {
  EXPECT_FALSE(compare(run_layout(in_axes(compressed("int8"), {.dp = 2})),
                       run_layout(in_axes(compressed("none"), {.dp = 2})))
                   .bitwise);
}

TEST(Compression, BucketsAndThreadsMakeNoDifference) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"}) {
    Config config = compressed(kind, "moe");
    const Outcome many = run(config, 3);
    EXPECT_TRUE(same_bits(many, run(config, 3, 2))) << kind << " threads";
    config.parallel.bucket_bytes = 16 << 20;
    EXPECT_TRUE(same_bits(many, run(config, 3))) << kind << " buckets";
  }
}

TEST(Compression, OtherNumbersOfRanksOweTheSame) {
  const Config config = compressed("int8");
  const SavedRun saved = save_after(in_axes(config, {.dp = 4}), config.train.steps);
  const auto before = owed(saved.run.state);
  EXPECT_FALSE(before.empty());
  for (const int ranks : {2, 3, 5}) {
    const auto after = owed(resume(in_axes(config, {.dp = ranks}), saved).state);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sum] : before)
      EXPECT_NEAR(after.at(name), sum, 1e-5) << name << ", " << ranks << " ranks";
  }
}

TEST(Compression, LossFallsAsTheUncompressedOne) {
  const auto losses = [&](const char* kind) {
    Config config = in_axes(compressed(kind), {.dp = 2});
    config.train.steps = 60;
    config.compression.ratio = 0.25;
    config.compression.rank = 8;
    const VerifyRun run = run_layout(config);
    return std::pair(run.losses.front(), run.losses.back());
  };
  const auto [first, last] = losses("none");
  for (const char* kind : {"bf16", "int8"}) EXPECT_NEAR(losses(kind).second, last, 0.02 * last) << kind;
  // The bench holds these against 2 % where the loss is not almost zero; here they are to be on the way there.
  for (const char* kind : {"topk", "powersgd"}) EXPECT_LT(losses(kind).second, 0.2 * first) << kind;
}

}  // namespace
}  // namespace athanor::tests::compression_test
