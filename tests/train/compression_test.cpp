// Law 1 for compressed gradients: N ranks train as their definition does, one process with N virtual ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "athanor/train/compression_state.h"
#include "support/compression_definition.h"
#include "train/virtual_ranks.h"

namespace athanor {
namespace {

Config compressed(const std::string& kind, const std::string& family = "llama",
                  const std::string& optimizer = "adamw") {
  Config config = tiny(family);
  config.optimizer.name = optimizer;
  config.parallel.compression = kind;
  config.parallel.compression_ratio = 0.05;
  config.parallel.compression_rank = 3;
  config.precision.compute = "f32";
  return config;
}

std::string definition_kind(const Config& config) {
  return config.parallel.compression == "onebit-adam" ? "onebit" : config.parallel.compression;
}

struct Definition {
  std::vector<double> losses, grad_norms;
  Floats weights;
};

// A training in one process: the gradients of each virtual rank one after the other, summed by the definition.
Definition define(const Config& config, int ranks) {
  Engine engine;
  const auto group = make_single_group();
  Config alone = config;
  alone.parallel.compression = "none";
  Training training(alone, 2, *group, engine.arena, nullptr, nullptr);
  training.allocate();
  training.model->initialize(config.train.seed);
  CompressionDefinition definition(definition_kind(config), config.parallel.error_feedback,
                                   config.parallel.compression_ratio, config.parallel.compression_rank,
                                   config.train.seed);
  const CompressionOptions options = compression_of(config);
  Definition run;
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    std::map<const Weight*, std::vector<Floats>> of_rank;
    double loss = 0.0, tokens = 0.0;
    for (int rank = 0; rank < ranks; ++rank) {
      const LeafRange grains = grains_of_rank(training.num_grains, ranks, rank);
      const Accumulated done = accumulate(training, config, step, grains);
      loss += done.loss;
      tokens += done.tokens;
      for (Weight* weight : training.model->weights()) of_rank[weight].push_back(to_floats(weight->grad()));
    }
    std::map<const Param*, Tensor> grads;
    double squares = 0.0;
    for (const auto& param : training.model->params()) {
      Floats sum(static_cast<size_t>(param->numel()), 0.0f);
      for (const auto& use : param->uses()) {
        const bool is_code = is_compressed(*param, options);
        const auto& x = of_rank.at(use.get());
        Floats of_use(sum.size(), 0.0f);
        if (is_code) {
          of_use = definition.sum(param->name() + " " + use->use(), x,
                                  static_cast<size_t>(param->numel() / param->shape()[0]),
                                  /*both_ways=*/config.parallel.zero == 0);
        } else {
          for (const Floats& of : x)
            for (size_t i = 0; i < of.size(); ++i) of_use[i] += of[i];
        }
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] = use == param->uses().front() ? of_use[i] : sum[i] + of_use[i];
      }
      Tensor grad = empty(engine.arena, param->shape(), Dtype::f32, Category::gradients);
      copy_from_host(grad, sum.data(), grad.size_bytes());
      grads[param.get()] = grad;
      double of_param = 0;
      kernels(grad).elementwise.sum_squares(*engine.queue, {&grad, 1}, {&of_param, 1});
      squares += of_param;
    }
    run.losses.push_back(loss / tokens);
    run.grad_norms.push_back(std::sqrt(squares) / tokens);
    const double clip = std::min(1.0, config.optimizer.clip_norm / (run.grad_norms.back() + 1e-6));
    training.optimizer->step(
        [&](Param& param) -> const Tensor& { return grads.at(&param); },
        {.update = step, .lr = schedule_of(config).at(step), .grad_scale = clip / tokens});
  }
  for (const auto& param : training.model->params()) {
    const Floats values = to_floats(param->master());
    run.weights.insert(run.weights.end(), values.begin(), values.end());
  }
  return run;
}

double gap_of(const Outcome& got, const Definition& expected) {
  double gap = 0.0, norm = 0.0;
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    gap += std::pow(double{got.weights[i]} - double{expected.weights[i]}, 2);
    norm += std::pow(double{expected.weights[i]}, 2);
  }
  return std::sqrt(gap / norm);
}

void expect_defined(const Config& config, int ranks, double tolerance) {
  const Outcome got = run(config, ranks);
  const Definition expected = define(config, ranks);
  const std::string what = config.parallel.compression + ", " + config.model.family + ", " +
                           config.optimizer.name + ", zero " + std::to_string(config.parallel.zero) + ", " +
                           std::to_string(ranks) + " ranks";
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    // The definition adds losses and norms up in another order.
    EXPECT_NEAR(got.steps[i].loss, expected.losses[i], std::max(tolerance, 1e-12) * expected.losses[i])
        << what;
    EXPECT_NEAR(got.steps[i].grad_norm, expected.grad_norms[i],
                std::max(tolerance, 1e-12) * expected.grad_norms[i])
        << what;
  }
  EXPECT_LE(gap_of(got, expected), tolerance) << what;
}

TEST(Compression, TrainsAsItsDefinition) {
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      expect_defined(compressed(kind, "llama", optimizer), 2, 0.0);
      expect_defined(compressed(kind, "gpt2", optimizer), 3, 0.0);  // tied embeddings
    }
  for (const char* kind : {"bf16", "int8", "topk"}) {
    Config config = compressed(kind);
    config.parallel.zero = 1;
    config.model.width = 48;  // of several blocks: cut
    config.model.head_dim = 12;
    expect_defined(config, 3, 0.0);
  }
  for (const char* optimizer : {"adamw", "sgd"})
    expect_defined(compressed("powersgd", "llama", optimizer), 3, 1e-4);
}

// The definition with and without error feedback: a run is equal to its own and far from the other. What is forgotten
// costs loss where much is left out.
TEST(Compression, ForgottenErrorFeedbackShows) {
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const char* optimizer : {"adamw", "sgd"}) {
      Config forgotten = compressed(kind, "llama", optimizer);
      forgotten.parallel.error_feedback = false;
      expect_defined(forgotten, 2, 0.0);
      EXPECT_GT(gap_of(run(forgotten, 2), define(compressed(kind, "llama", optimizer), 2)), 1e-6)
          << kind << " " << optimizer;
    }
  Config config = compressed("topk", "llama", "sgd");
  config.train.steps = 60;
  const double with = run(config, 2).steps.back().loss;
  config.parallel.error_feedback = false;
  EXPECT_LT(with, run(config, 2).steps.back().loss);
}

TEST(Compression, OfOneRankIsNone) {
  EXPECT_TRUE(same_bits(run(compressed("int8"), 1), run(compressed("none"), 1)));
  EXPECT_FALSE(same_bits(run(compressed("int8"), 2), run(compressed("none"), 2)));
}

TEST(Compression, WarmupIsNotCompressed) {
  Config config = compressed("topk");
  config.parallel.compression_warmup = config.train.steps;
  EXPECT_TRUE(same_bits(run(config, 3), run(compressed("none"), 3)));
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

TEST(CompressionCheckpoint, ResumesToTheSameBits) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd"}) {
    Config config = compressed(kind, "gpt2");
    config.train.steps = 5;
    const std::string folder = ::testing::TempDir() + "compression_" + kind;
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
std::map<std::string, double> owed(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(system_env(), path);
  std::map<std::string, double> sums;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    const size_t at = entry.name.find("residue.");
    if (at == std::string::npos) continue;
    std::string of = entry.name.substr(at + 8);
    if (at == 0) of = of.substr(of.find('.') + 1);
    Floats values(static_cast<size_t>(entry.shape.numel()));
    checkpoint.read(entry.name, values.data());
    for (const float value : values) sums[of] += double{value};
  }
  return sums;
}

TEST(CompressionCheckpoint, OtherNumbersOfRanksOweTheSame) {
  Config config = compressed("int8");
  config.train.steps = 4;
  const std::string folder = ::testing::TempDir() + "compression_elastic";
  train_chain(config, {{4, 4}}, folder);
  const auto before = owed(folder + "/4");
  EXPECT_FALSE(before.empty());
  for (const int ranks : {2, 3, 5}) {
    train_chain(config, {{4, 4}, {ranks, 0}}, folder);  // read and written again
    const auto after = owed(folder + "/4");
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sum] : before)
      EXPECT_NEAR(after.at(name), sum, 1e-5) << name << ", " << ranks << " ranks";
  }
}

TEST(Compression, LossFallsAsTheUncompressedOne) {
  Config config = compressed("none");
  config.train.steps = 60;
  config.parallel.compression_ratio = 0.25;
  config.parallel.compression_rank = 8;
  const auto losses = [&](const char* kind) {
    config.parallel.compression = kind;
    const Outcome outcome = run(config, 2);
    return std::pair(outcome.steps.front().loss, outcome.steps.back().loss);
  };
  const auto [first, last] = losses("none");
  for (const char* kind : {"bf16", "int8"}) EXPECT_NEAR(losses(kind).second, last, 0.02 * last) << kind;
  // The bench holds these against 2 % where the loss is not almost zero; here they are to be on the way there.
  for (const char* kind : {"topk", "powersgd"}) EXPECT_LT(losses(kind).second, 0.2 * first) << kind;
}

}  // namespace
}  // namespace athanor
