// Compressed gradients beside ZeRO, pipelines, contexts and experts. A pipeline changes no bit of them. Under cp
// and ep ranks have other gradients to compress than dp alone, so there the runs are held against uncompressed ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "athanor/config/validate.h"
#include "athanor/train/engine/compression_state.h"
#include "support/tiers.h"
#include "train/saved_run.h"

namespace athanor::tests::compression_layouts_test {
namespace {

using testing::StartsWith;

Config four_compressed_micro_batches(const std::string& kind, const std::string& family = "llama") {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.train.global_batch_size = 8;  // four micro-batches
  config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";  // runs may end early
  config.compression.method = kind;
  config.compression.ratio = 0.2;
  config.compression.warmup_steps = kind == "onebit-adam" ? 2 : 0;
  return config;
}

Config across(Config config, int dp, int cp, int ep = 1, int pp = 1) {
  config.parallel.dp = dp;
  config.parallel.cp = cp;
  config.parallel.ep = ep;
  config.parallel.pp = pp;
  return config;
}

// Every stage of ZeRO, in one set of shards or two, beside every other axis.
TEST(CompressionLayouts, AreTrainedOrRefusedByName) {
  LEAVE_OUT_UNDER(thread_sanitizer, "so many trainings take minutes");
  struct Axes {
    const char* family = "llama";
    int pp = 1, cp = 1, tp = 1, ep = 1;
  };
  for (const Axes& axes :
       {Axes{}, Axes{.pp = 2}, Axes{.cp = 2}, Axes{.tp = 2}, Axes{.family = "moe", .ep = 2}})
    for (const auto& [zero, shard] :
         {std::pair(0, 0), {1, 0}, {2, 0}, {3, 0}, {0, 2}, {1, 2}, {2, 2}, {3, 2}}) {
      std::optional<VerifyRun> plain;
      for (const std::string kind : {"none", "bf16", "int8", "topk", "powersgd", "onebit-adam"}) {
        Config config =
            across(four_compressed_micro_batches(kind, axes.family), 4, axes.cp, axes.ep, axes.pp);
        if (config.model.num_experts > 0) config.model.num_experts = 8;
        config.parallel.tp = axes.tp;
        config.parallel.zero_stage = zero;
        config.parallel.shard_degree = shard;
        config.train.steps = 3;
        const std::string what = fmt::format("{} {} zero {} of {}, pp {} cp {} tp {}", kind, axes.family,
                                             zero, shard, axes.pp, axes.cp, axes.tp);
        const bool is_block_code = kind == "none" || kind == "bf16" || kind == "int8";
        try {
          validate(config);
          EXPECT_TRUE(zero > 0 || shard == 0) << what;
          EXPECT_TRUE(is_block_code || (zero <= 1 && shard == 0)) << what;
        } catch (const ConfigError& error) {
          EXPECT_TRUE((zero == 0 && shard > 0) || (!is_block_code && (zero > 1 || shard > 0))) << what;
          EXPECT_THAT(error.what(),
                      StartsWith(is_block_code ? "parallel.shard_degree: " : "compression.method: "));
          continue;
        }
        const VerifyRun run = run_layout(config);
        if (!plain) plain = run;
        EXPECT_EQ(run.losses[0], plain->losses[0]) << what;
        EXPECT_NEAR(run.losses.back(), plain->losses.back(), 0.05 * plain->losses.back()) << what;
        EXPECT_EQ(run.weights == plain->weights, kind == "none") << what;
      }
    }
}

TEST(CompressionLayouts, PipelinesKeepTheBits) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"})
    for (const char* family : {"llama", "gpt2", "moe"}) {
      Config config = four_compressed_micro_batches(kind, family);
      const bool moe = config.model.num_experts > 0;
      if (moe) config.model.num_experts = 8;
      const int dp = moe ? 4 : 2, ep = moe ? 2 : 1;
      const VerifyRun flat = run_layout(across(config, dp, 1, ep));
      const VerifyRun run = run_layout(across(config, dp, 1, ep, 2));
      EXPECT_EQ(run.losses, flat.losses) << kind << " " << family;
      EXPECT_EQ(run.weights, flat.weights) << kind << " " << family;
      for (const auto& [name, values] :
           flat.state)  // a tied table has its state on both ends of the pipeline
        EXPECT_EQ(run.state.at(name), values) << kind << " " << family << " " << name;
      // 1-bit Adam's norm is of gradients that are not summed: its squares are added over stages and ranks at once.
      EXPECT_LE(compare(run, flat).grad_norm.value, std::string(kind) == "onebit-adam" ? 1e-14 : 0.0)
          << kind << " " << family;
      config.compression.method = "none";
      EXPECT_FALSE(compare(run_layout(across(config, dp, 1, ep)), flat).bitwise) << kind;
    }
}

// The codes that keep most of a gradient: near. The others: trained, and by the first step's exact loss.
TEST(CompressionLayouts, ContextsAndExpertsAreNearTheUncompressed) {
  LEAVE_OUT_UNDER(thread_sanitizer, "so many trainings take minutes");
  for (const char* kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"})
    for (const int ep : {1, 2}) {
      Config config = four_compressed_micro_batches(kind, "moe_bias");
      config.model.num_experts = 8;
      const VerifyRun run = run_layout(across(config, 2, 2, ep));
      config.compression.method = "none";
      const VerifyRun plain = run_layout(across(config, 2, 2, ep));
      const bool fine = std::string(kind) == "bf16" || std::string(kind) == "int8";
      EXPECT_EQ(run.losses[0], plain.losses[0]) << kind;
      EXPECT_NEAR(run.losses.back(), plain.losses.back(), (fine ? 0.002 : 0.05) * plain.losses.back())
          << kind;
      EXPECT_NE(run.weights, plain.weights) << kind << ": nothing was compressed";
      config.compression.method = kind;
      EXPECT_TRUE(compare(run_layout(across(config, 2, 2, ep)), run).bitwise) << kind << ", again";
    }
}

// Residuals of every rank that sums a gradient, those of experts among them, are in the checkpoint.
TEST(CompressionLayouts, ResumeToTheSameBits) {
  LEAVE_OUT_UNDER(thread_sanitizer, "so many trainings take minutes");
  for (const char* kind : {"int8", "topk", "powersgd", "onebit-adam"}) {
    Config config = four_compressed_micro_batches(kind, "moe_bias");
    config.model.num_experts = 8;
    config = across(config, 2, 2, 2);
    const VerifyRun whole = run_layout(config);
    const std::string folder = temporary_path(std::string("compression_layouts_") + kind);
    std::filesystem::remove_all(folder);
    Config half = config;
    half.train.steps = 3;
    TrainState then;
    run_layout(
        half, {.end = [&](Training& training, TrainState& state, World& world) {
          CheckpointContent content{
              .step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}};
          write_checkpoint(system_env(), world.all(), folder, content);
          if (world.rank() == 0) then = state;
        }});
    const auto path = newest_checkpoint(system_env(), folder, nullptr);
    ASSERT_TRUE(path);
    int residuals = 0, of_experts = 0, factors = 0;
    const Checkpoint checkpoint = Checkpoint::open(system_env(), *path);
    for (const TensorEntry& entry : checkpoint.tensors()) {
      const bool expert = entry.name.find("experts") != std::string::npos;
      residuals += entry.name.starts_with("error_feedback.3.") ? 1 : 0;
      of_experts += expert && entry.name.starts_with("error_feedback.1.") ? 1 : 0;
      factors += expert && entry.name.starts_with("factor.") ? 1 : 0;
      if (expert && entry.name.starts_with("factor.")) {
        EXPECT_EQ(entry.shape[0], 8) << "of every expert";
      }
    }
    EXPECT_GT(residuals, 0) << "of the last of dp x cp ranks";
    EXPECT_EQ(of_experts, 3) << "gate, up and down of the last of edp ranks";
    EXPECT_EQ(factors, std::string(kind) == "powersgd" ? 3 : 0);
    const VerifyRun rest = run_layout(config, {.begin = [&](Training& training, TrainState& state, World&) {
                                        training.load(Checkpoint::open(system_env(), *path));
                                        training.publish(then);
                                        state = then;
                                      }});
    EXPECT_EQ(rest.weights, whole.weights) << kind;
    EXPECT_EQ(rest.losses.back(), whole.losses.back()) << kind;
    EXPECT_EQ(rest.state, whole.state) << kind;
  }
}

// Each part of a matrix that tp cuts has a factor; those of matrices that it leaves whole are as without it.
TEST(CompressionLayouts, PartsOfMatricesResumeToTheSameBits) {
  Config config = across(four_compressed_micro_batches("powersgd", "gpt2"), 2, 1);
  config.parallel.tp = 2;
  const VerifyRun whole = run_layout(config);
  const SavedRun saved = save_after(config, 3, "compression_layouts_parts");
  const Checkpoint checkpoint = Checkpoint::open(system_env(), saved.folder);
  int parts = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (!entry.name.starts_with("factor.")) continue;
    EXPECT_EQ(entry.shape.dims(), 3) << entry.name;
    EXPECT_EQ(entry.shape[0], 2) << entry.name;
    ++parts;
  }
  EXPECT_GT(parts, 0);
  const VerifyRun rest = resume(config, saved);
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.losses.back(), whole.losses.back());
  EXPECT_EQ(rest.state, whole.state);
  // Factors of other parts are none of these: they begin again.
  const VerifyRun flat = resume(across(four_compressed_micro_batches("powersgd", "gpt2"), 2, 1), saved);
  EXPECT_NEAR(flat.losses.back(), whole.losses.back(), 0.05 * whole.losses.back());
}

// Of a rank's parts R and C: 2 (n-1)/n 4 r (R + C) bytes each, and what is not compressed as f32.
TEST(CompressionLayouts, PartsOfMatricesSendTheDocumentedBytes) {
  Config config = across(four_compressed_micro_batches("powersgd"), 2, 1);
  config.parallel.tp = 2;
  config.compression.rank = 2;
  config.model.vocab_size = 44;  // two halves without padding
  const ModelConfig& m = config.model;
  const int64_t head = m.hidden_size / m.num_attention_heads, q = m.hidden_size / 2,
                kv = m.num_key_value_heads * head / 2, ffn = m.intermediate_size / 2;
  const int64_t factors = 2 * (2 * (m.vocab_size / 2 + m.hidden_size) +
                               m.num_hidden_layers * (2 * (q + m.hidden_size) + 2 * (kv + m.hidden_size) +
                                                      3 * (ffn + m.hidden_size))),
                vectors = (2 * m.num_hidden_layers + 1) * m.hidden_size;
  std::map<std::thread::id, Group*> groups;
  std::mutex mutex;
  const int64_t losses = 8 * (2 * 4 * 2 + 1);  // 2 (n-1)/n = 1
  run_layout(config, {.lay_out =
                          [&](Training& training, Mesh& mesh) {
                            training.lay_out(mesh);
                            const std::lock_guard lock(mutex);
                            groups[std::this_thread::get_id()] = &mesh.group({Axis::dp, Axis::cp});
                          },
                      .end =
                          [&](Training&, TrainState&, World&) {
                            const std::lock_guard lock(mutex);
                            EXPECT_EQ(groups.at(std::this_thread::get_id())->traffic().total().bytes,
                                      config.train.steps * (4 * (factors + vectors) + losses));
                          }});
}

// What crosses the wire between the ranks with the same experts (docs/compression.md).
TEST(CompressionLayouts, ExpertsSendTheDocumentedBytes) {
  constexpr int64_t kCopies = 2, kExperts = 4;  // edp; of a rank
  for (const char* kind : {"int8", "powersgd", "onebit-adam"}) {
    Config config = four_compressed_micro_batches(kind, "moe_bias");
    config.model.num_experts = 8;
    config.compression.rank = 2;
    const ModelConfig& m = config.model;
    const int64_t matrix = m.moe_intermediate_size * m.hidden_size,
                  layers = m.num_hidden_layers - m.first_k_dense_replace;
    const auto codes = [&](int64_t bytes) {
      const int64_t blocks = 3 * layers * ((kExperts * matrix + 255) / 256);
      return 2 * (kCopies - 1) * ((blocks + kCopies - 1) / kCopies) * bytes;
    };
    const auto floats = [&](int64_t count) { return 2 * (kCopies - 1) * 4 * count / kCopies; };
    const int64_t compressed_steps = config.train.steps - config.compression.warmup_steps,
                  whole = floats(3 * layers * kExperts * matrix);
    int64_t of_step = codes(260), squares = 0;
    if (std::string(kind) == "powersgd")
      of_step = floats(3 * layers * kExperts * 2 * (m.moe_intermediate_size + m.hidden_size));
    if (std::string(kind) == "onebit-adam") {
      of_step = codes(36);
      squares = floats(2 * 3 * layers);  // f64 of the norm, which nobody's sum has
    }
    const std::string text = config.compression.method;
    const std::function<Group*(Mesh&)> copies = [](Mesh& mesh) { return &mesh.group(Axis::edp); };
    std::map<std::thread::id, Group*> groups;
    std::mutex mutex;
    run_layout(across(config, 4, 1, 2),
               {.lay_out =
                    [&](Training& training, Mesh& mesh) {
                      training.lay_out(mesh);
                      const std::lock_guard lock(mutex);
                      groups[std::this_thread::get_id()] = copies(mesh);
                    },
                .end =
                    [&](Training&, TrainState&, World&) {
                      const std::lock_guard lock(mutex);
                      EXPECT_EQ(
                          groups.at(std::this_thread::get_id())->traffic().total().bytes,
                          compressed_steps * (of_step + squares) + config.compression.warmup_steps * whole)
                          << text;
                    }});
  }
}

}  // namespace
}  // namespace athanor::tests::compression_layouts_test
