// Law 1 for compressed gradients: N ranks train as their definition does, one process with N virtual ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/defined_sums.h"
#include "train/layout_run.h"

namespace athanor::tests::compression_test {
namespace {

Config compressed_config(const std::string& kind, const std::string& family = "llama",
                         const std::string& optimizer = "adamw") {
  Config config = tiny(family);
  config.optimizer.name = optimizer;
  config.compression.method = kind;
  config.compression.ratio = 0.05;
  config.compression.rank = 3;
  config.precision.compute = "f32";
  return config;
}

Outcome outcome_of(const Config& config, const VerifyRun& run) {
  Outcome outcome;
  const auto model = make_model(config.model);
  for (const auto& param : model->params()) {
    const auto& values = run.weights.at("model." + param->name());
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  return outcome;
}

double gap_of(const Outcome& got, const DefinedRun& expected) {
  double gap = 0.0, norm = 0.0;
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    gap += std::pow(double{got.weights[i]} - double{expected.weights[i]}, 2);
    norm += std::pow(double{expected.weights[i]}, 2);
  }
  return std::sqrt(gap / norm);
}

void expect_defined(const Config& config, int ranks, double tolerance) {
  const Outcome got = run(config, ranks);
  const DefinedRun expected = define_run(config, ranks);
  const std::string what = config.compression.method + ", " + config.model.model_type + ", " +
                           config.optimizer.name + ", zero " + std::to_string(config.parallel.zero_stage) +
                           ", " + std::to_string(ranks) + " ranks";
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    // The definition adds losses and norms up in another order.
    EXPECT_NEAR(got.steps[i].loss, expected.losses[i], std::max(tolerance, 1e-12) * expected.losses[i])
        << what;
    EXPECT_EQ(got.steps[i].loss_scale, expected.loss_scales[i]) << what;
    EXPECT_EQ(std::isfinite(got.steps[i].grad_norm), std::isfinite(expected.grad_norms[i])) << what << i;
    if (std::isfinite(expected.grad_norms[i])) {
      EXPECT_NEAR(got.steps[i].grad_norm, expected.grad_norms[i],
                  std::max(tolerance, 1e-12) * expected.grad_norms[i])
          << what;
    }
  }
  EXPECT_LE(gap_of(got, expected), tolerance) << what;
}

TEST(Compression, TrainsAsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      expect_defined(compressed_config(kind, "llama", optimizer), 2, 0.0);
      expect_defined(compressed_config(kind, "gpt2", optimizer), 3, 0.0);  // tied embeddings
    }
  for (const char* kind : {"bf16", "int8", "topk"}) {
    Config config = compressed_config(kind);
    config.parallel.zero_stage = 1;
    config.model.hidden_size = 48;  // of several blocks: cut
    config.model.head_dim = 12;
    expect_defined(config, 3, 0.0);
  }
  for (const char* optimizer : {"adamw", "sgd"})
    expect_defined(compressed_config("powersgd", "llama", optimizer), 3, 1e-4);
}

// ZeRO 2 and 3: every round of micro-batches is sent, of uneven ones the last with nothing but what is owed.
TEST(Compression, OfRoundsIsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const int zero : {2, 3})
    for (const char* kind : {"bf16", "int8"})
      for (const bool feedback : {true, false}) {
        Config config = compressed_config(kind, zero == 2 ? "gpt2" : "llama", feedback ? "adamw" : "sgd");
        config.parallel.zero_stage = zero;
        config.compression.error_feedback = feedback;
        config.model.hidden_size = 48;  // of several blocks: cut
        config.model.head_dim = 12;
        for (const int ranks : {feedback ? 2 : 5, 3}) expect_defined(config, ranks, 0.0);
        config.compression.error_feedback = !feedback;
        const Outcome got = run(config, 2);
        config.compression.error_feedback = feedback;
        EXPECT_GT(gap_of(got, define_run(config, 2)), 1e-6) << kind << ": what is owed shows";
        config.compression.error_feedback = !feedback;
        config.parallel.zero_stage = 1;
        EXPECT_GT(gap_of(got, define_run(config, 2)), 1e-6) << kind << ": so do rounds";
      }
}

// f16: what is owed is of the loss, while its scale grows, and nothing of a step that overflows.
TEST(Compression, LossScalesMakeNoDifference) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"})
    for (const int zero : {0, 1, 3})
      for (const bool overflows : {false, true}) {
        if (zero == 3 && (kind == std::string("topk") || kind == std::string("powersgd"))) continue;
        Config config = compressed_config(kind, "llama", "sgd");
        config.precision.compute = "f16";
        config.precision.loss_scale = overflows ? 4194304 : 256;
        config.precision.loss_scale_window = 2;
        config.parallel.zero_stage = zero;
        config.train.steps = 10;
        expect_defined(config, 2, kind == std::string("powersgd") ? 2e-3 : 0.0);
        const DefinedRun expected = define_run(config, 2);
        const auto& norms = expected.grad_norms;
        const auto applied =
            std::count_if(norms.begin(), norms.end(), [](double norm) { return std::isfinite(norm); });
        EXPECT_GE(applied, 2) << "steps after those that overflow";
        EXPECT_EQ(applied < config.train.steps, overflows);
        EXPECT_EQ(expected.loss_scales.back() == 16 * 256.0, !overflows);
      }
}

// With experts on other ranks: each of their matrices has factors of its own, summed over the ranks that have it.
TEST(Compression, OfExpertsIsItsDefinedRun) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    Config config = compressed_config("powersgd", "moe", optimizer);
    config.model.num_experts = 8;
    config.optimizer.lr = 1e-3;
    config.train.global_batch_size = 8;  // four micro-batches
    expect_defined(config, 2, 1e-4);
    config.parallel.dp = 4;
    config.parallel.ep = 2;
    const DefinedRun expected = define_run(config, 4);
    const VerifyRun got = run_layout(config);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << optimizer << i;
      EXPECT_NEAR(got.grad_norms[i], expected.grad_norms[i], 1e-4 * expected.grad_norms[i]) << optimizer << i;
    }
    const Outcome outcome = outcome_of(config, got);
    EXPECT_LE(gap_of(outcome, expected), 1e-5) << optimizer;
    config.compression.error_feedback = false;
    EXPECT_GT(gap_of(outcome, define_run(config, 4)), 1e-5) << optimizer << ": what is forgotten shows";
  }
}

// What tensor parallelism leaves a rank of a matrix has factors of its own; what it leaves whole has the same ones on
// every rank, which run_layout holds against each other. Factors of whole matrices are another function.
TEST(Compression, OfPartsOfMatricesIsItsDefinedRun) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* optimizer : {"adamw", "sgd"})
    for (const auto& [zero, sp] : {std::pair(0, false), {0, true}, {1, false}}) {
      Config config = compressed_config("powersgd", "llama", optimizer);
      config.optimizer.lr = 1e-3;
      config.parallel.dp = config.parallel.tp = 2;
      config.parallel.zero_stage = zero;
      config.parallel.sp = sp;
      const DefinedRun expected = define_run(config, 2);
      const VerifyRun got = run_layout(config);
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << optimizer << i;
        EXPECT_NEAR(got.grad_norms[i], expected.grad_norms[i], 1e-4 * expected.grad_norms[i])
            << optimizer << i;
      }
      EXPECT_LE(gap_of(outcome_of(config, got), expected), 1e-5) << optimizer << " zero " << zero;
      config.parallel.tp = 1;
      EXPECT_GT(gap_of(outcome_of(config, got), define_run(config, 2)), 1e-5)
          << optimizer << " zero " << zero;
    }
}

// Hybrid sharding: sets of ranks sum exactly, and what they exchange is coded as that of so many ranks with zero = 0.
TEST(Compression, OfHybridShardsIsItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  const auto expect_sets = [](Config config, int dp, int shard, int zero = 1) {
    // Seven micro-batches: uneven. Stages 2 and 3 add up rounds; of one micro-batch a rank that is the order of the ranks, too.
    config.train.global_batch_size = zero == 1 ? 14 : 2 * dp;
    config.model.hidden_size = 48;  // matrices of several blocks: cut
    config.model.head_dim = 12;
    config.parallel.dp = dp;
    config.parallel.zero_stage = zero;
    config.parallel.shard_degree = shard;
    Config defined = config;
    defined.parallel.zero_stage = 1;
    const DefinedRun expected = define_run(defined, dp);
    const VerifyRun got = run_layout(config);
    const std::string what = fmt::format("{} {} dp {} in {}, zero {}", config.compression.method,
                                         config.model.model_type, dp, shard, zero);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-12 * expected.losses[i]) << what;
      EXPECT_NEAR(got.grad_norms[i], expected.grad_norms[i], 1e-12 * expected.grad_norms[i]) << what;
    }
    EXPECT_EQ(gap_of(outcome_of(config, got), expected), 0.0) << what;
    defined.compression.error_feedback = false;
    EXPECT_GT(gap_of(outcome_of(config, got), define_run(defined, dp)), 1e-6) << what << ": what is owed";
    defined.compression.error_feedback = true;
    defined.parallel.shard_degree = 0;
    EXPECT_GT(gap_of(outcome_of(config, got), define_run(defined, dp)), 1e-6)
        << what << ": codes of every rank";
  };
  for (const char* kind : {"bf16", "int8"}) {
    expect_sets(compressed_config(kind, "llama", "sgd"), 4, 2);
    expect_sets(compressed_config(kind, "gpt2", "adamw"), 6, 2);  // tied embeddings
    expect_sets(compressed_config(kind, "llama", "adamw"), 6, 3);
    expect_sets(compressed_config(kind, "gpt2", "sgd"), 4, 2, 2);
    expect_sets(compressed_config(kind, "llama", "adamw"), 6, 2, 3);
  }
}

// Experts of which a set has one copy are exchanged by all that have them, of several by the sets.
TEST(Compression, OfExpertsInHybridShardsIsItsDefinition) {
  LEAVE_OUT_UNDER(any_sanitizer, "a run beside its definition takes minutes");
  for (const char* kind : {"bf16", "int8"})
    for (const auto& [dp, shard, zero] : {std::tuple(4, 2, 1), {8, 4, 1}, {8, 4, 3}}) {
      Config config = compressed_config(kind, "moe");
      config.model.num_experts = 8;
      config.optimizer.lr = 1e-3;
      config.train.global_batch_size = 16;  // eight micro-batches
      config.parallel.dp = dp;
      config.parallel.ep = 2;
      config.parallel.zero_stage = zero;
      config.parallel.shard_degree = shard;
      const DefinedRun expected = define_run(config, dp);
      const VerifyRun got = run_layout(config);
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << dp << " " << i;
        EXPECT_NEAR(got.grad_norms[i], expected.grad_norms[i], 1e-4 * expected.grad_norms[i])
            << dp << " " << i;
      }
      const Outcome outcome = outcome_of(config, got);
      EXPECT_LE(gap_of(outcome, expected), 1e-6) << kind << " " << dp;
      config.compression.error_feedback = false;
      EXPECT_GT(gap_of(outcome, define_run(config, dp)), 1e-5) << kind << " " << dp << ": what is owed";
      config.compression.error_feedback = true;
      config.parallel.zero_stage = config.parallel.shard_degree = 0;
      EXPECT_GT(gap_of(outcome, define_run(config, dp)), 1e-5)
          << kind << " " << dp << ": codes of every rank";
    }
}

// The definition with and without error feedback: a run is equal to its own and far from the other. What is forgotten
// costs loss where much is left out.
TEST(Compression, ForgottenErrorFeedbackShows) {
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      Config forgotten = compressed_config(kind, "llama", optimizer);
      forgotten.compression.error_feedback = false;
      expect_defined(forgotten, 2, 0.0);
      EXPECT_GT(gap_of(run(forgotten, 2), define_run(compressed_config(kind, "llama", optimizer), 2)), 1e-6)
          << kind << " " << optimizer;
    }
  Config config = compressed_config("topk", "llama", "sgd");
  config.train.steps = 60;
  const double with = run(config, 2).steps.back().loss;
  config.compression.error_feedback = false;
  EXPECT_LT(with, run(config, 2).steps.back().loss);
}

TEST(Compression, OfOneRankIsNone) {
  EXPECT_TRUE(same_bits(run(compressed_config("int8"), 1), run(compressed_config("none"), 1)));
  EXPECT_FALSE(same_bits(run(compressed_config("int8"), 2), run(compressed_config("none"), 2)));
}

TEST(Compression, WarmupIsNotCompressed) {
  Config config = compressed_config("topk");
  config.compression.warmup_steps = config.train.steps;
  EXPECT_TRUE(same_bits(run(config, 3), run(compressed_config("none"), 3)));
}

TEST(Compression, BucketsAndThreadsMakeNoDifference) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"}) {
    Config config = compressed_config(kind, "moe");
    const Outcome many = run(config, 3);
    EXPECT_TRUE(same_bits(many, run(config, 3, 2))) << kind << " threads";
    config.parallel.bucket_bytes = 16 << 20;
    EXPECT_TRUE(same_bits(many, run(config, 3))) << kind << " buckets";
  }
}

TEST(CompressionCheckpoint, ResumesToTheSameBits) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"}) {
    Config config = compressed_config(kind, "gpt2");
    config.train.steps = 5;
    const std::string folder = temporary_path(std::string("compression_") + kind);
    const auto whole = train_chain(config, {{3, 5}}, folder);
    const std::string digest = Checkpoint::open(system_env(), folder + "/5").digest();
    const auto parts = train_chain(config, {{3, 2}, {3, 3}}, folder);
    ASSERT_EQ(whole.size(), parts.size());
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(bits(whole[i]), bits(parts[i])) << kind << " step " << i + 1;
    EXPECT_EQ(digest, Checkpoint::open(system_env(), folder + "/5").digest()) << kind;
  }
}

// What is owed, of a logical tensor: over all ranks, and of the sum.
std::map<std::string, double> owed_by_tensor(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(system_env(), path);
  std::map<std::string, double> sums;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    const bool of_rank = entry.name.starts_with("error_feedback.");
    if (!of_rank && !entry.name.starts_with("server_error.")) continue;
    std::string of = entry.name.substr(entry.name.find('.') + 1);
    if (of_rank) of = of.substr(of.find('.') + 1);
    Floats values(static_cast<size_t>(entry.shape.numel()));
    checkpoint.read(entry.name, values.data());
    for (const float value : values) sums[of] += double{value};
  }
  return sums;
}

TEST(CompressionCheckpoint, OtherNumbersOfRanksOweTheSame) {
  Config config = compressed_config("int8");
  config.train.steps = 4;
  const std::string folder = temporary_path("compression_elastic");
  train_chain(config, {{4, 4}}, folder);
  const auto before = owed_by_tensor(folder + "/4");
  EXPECT_FALSE(before.empty());
  for (const int ranks : {2, 3, 5}) {
    train_chain(config, {{4, 4}, {ranks, 0}}, folder);  // read and written again
    const auto after = owed_by_tensor(folder + "/4");
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sum] : before)
      EXPECT_NEAR(after.at(name), sum, 1e-5) << name << ", " << ranks << " ranks";
  }
}

TEST(Compression, LossFallsAsTheUncompressedOne) {
  Config config = compressed_config("none");
  config.train.steps = 60;
  config.compression.ratio = 0.25;
  config.compression.rank = 8;
  const auto losses = [&](const char* kind) {
    config.compression.method = kind;
    const Outcome outcome = run(config, 2);
    return std::pair(outcome.steps.front().loss, outcome.steps.back().loss);
  };
  const auto [first, last] = losses("none");
  for (const char* kind : {"bf16", "int8"}) EXPECT_NEAR(losses(kind).second, last, 0.02 * last) << kind;
  // The bench holds these against 2 % where the loss is not almost zero; here they are to be on the way there.
  for (const char* kind : {"topk", "powersgd"}) EXPECT_LT(losses(kind).second, 0.2 * first) << kind;
}

}  // namespace
}  // namespace athanor::tests::compression_test
