// Compressed gradients beside pipelines, contexts and experts. A pipeline changes no bit of them. Under cp
// and ep ranks have other gradients to compress than dp alone, so there the runs are held against uncompressed ones.
#include <gtest/gtest.h>

#include <filesystem>

#include "athanor/train/compression_state.h"
#include "checkpoint/content.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

Config compressed(const std::string& kind, const std::string& family = "llama") {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.train.global_batch = 8;  // four grains
  config.optimizer.lr = 1e-3;
  config.schedule.decay = "constant";  // runs may end early
  config.parallel.compression = kind;
  config.parallel.compression_ratio = 0.2;
  config.parallel.compression_warmup = kind == "onebit-adam" ? 2 : 0;
  return config;
}

Config in(Config config, int dp, int cp, int ep = 1, int pp = 1) {
  config.parallel.dp = dp;
  config.parallel.cp = cp;
  config.parallel.ep = ep;
  config.parallel.pp = pp;
  return config;
}

TEST(CompressionLayouts, PipelinesKeepTheBits) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"})
    for (const char* family : {"llama", "gpt2"}) {
      const Config config = compressed(kind, family);
      const VerifyRun flat = run_layout(in(config, 2, 1));
      const VerifyRun run = run_layout(in(config, 2, 1, 1, 2));
      EXPECT_EQ(run.losses, flat.losses) << kind << " " << family;
      EXPECT_EQ(run.weights, flat.weights) << kind << " " << family;
      for (const auto& [name, values] :
           flat.state)  // a tied table has its state on both ends of the pipeline
        EXPECT_EQ(run.state.at(name), values) << kind << " " << family << " " << name;
      // 1-bit Adam's norm is of gradients that are not summed: its squares are added over stages and ranks at once.
      EXPECT_LE(compare(run, flat).grad_norm.value, std::string(kind) == "onebit-adam" ? 1e-14 : 0.0)
          << kind << " " << family;
      EXPECT_FALSE(compare(run_layout(in(compressed("none", family), 2, 1)), flat).bitwise) << kind;
    }
}

// The codes that keep most of a gradient: near. The others: trained, and by the first step's exact loss.
TEST(CompressionLayouts, ContextsAndExpertsAreNearTheUncompressed) {
  for (const char* kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"})
    for (const int ep : {1, 2}) {
      if (ep > 1 && (std::string(kind) == "powersgd" || std::string(kind) == "onebit-adam")) continue;
      Config config = compressed(kind, "moe_bias");
      config.model.experts = 8;
      const VerifyRun run = run_layout(in(config, 2, 2, ep));
      config.parallel.compression = "none";
      const VerifyRun plain = run_layout(in(config, 2, 2, ep));
      const bool fine = std::string(kind) == "bf16" || std::string(kind) == "int8";
      EXPECT_EQ(run.losses[0], plain.losses[0]) << kind;
      EXPECT_NEAR(run.losses.back(), plain.losses.back(), (fine ? 0.002 : 0.05) * plain.losses.back())
          << kind;
      EXPECT_NE(run.weights, plain.weights) << kind << ": nothing was compressed";
      config.parallel.compression = kind;
      EXPECT_TRUE(compare(run_layout(in(config, 2, 2, ep)), run).bitwise) << kind << ", again";
    }
}

// Residues of every rank that sums a gradient, those of experts among them, are in the checkpoint.
TEST(CompressionLayouts, ResumeToTheSameBits) {
  for (const char* kind : {"int8", "topk"}) {
    Config config = compressed(kind, "moe_bias");
    config.model.experts = 8;
    config = in(config, 2, 2, 2);
    const VerifyRun whole = run_layout(config);
    const std::string folder = ::testing::TempDir() + "compression_layouts_" + kind;
    std::filesystem::remove_all(folder);
    Config half = config;
    half.train.steps = 2;
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
    int residues = 0;
    const Checkpoint checkpoint = Checkpoint::open(system_env(), *path);
    for (const TensorEntry& entry : checkpoint.tensors())
      residues += entry.name.starts_with("residue.3.") ? 1 : 0;
    EXPECT_GT(residues, 0) << "of the last of dp x cp ranks";
    const VerifyRun rest = run_layout(config, {.begin = [&](Training& training, TrainState& state, World&) {
                                        training.load(Checkpoint::open(system_env(), *path));
                                        training.publish(then);
                                        state = then;
                                      }});
    EXPECT_EQ(rest.weights, whole.weights) << kind;
    EXPECT_EQ(rest.losses.back(), whole.losses.back()) << kind;
  }
}

}  // namespace
}  // namespace athanor
