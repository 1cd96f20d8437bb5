// Training on a device gives what it gives on the CPU, on several what it gives on one; what does not fit is refused.
#include "athanor/engine/device.h"

#include <fmt/format.h>

#include <cmath>

#include "support/places.h"
#include "support/tiers.h"
#include "train/device_training.h"

namespace athanor::tests::device_test {
namespace {

struct DeviceCase {
  const char *family, *compute, *optimizer;
  double tolerance;
};

using DeviceTraining = testing::TestWithParam<DeviceCase>;

TEST_P(DeviceTraining, GivesTheLossesOfTheCpu) {
  Config config = tiny(GetParam().family);
  config.precision.compute = GetParam().compute;
  config.optimizer.name = GetParam().optimizer;
  config.train.global_batch_size = 4;
  config.train.steps = 20;
  const Outcome cpu = run(config, 1), device = run_on_devices(config, 1);
  for (size_t i = 0; i < cpu.steps.size(); ++i) {
    EXPECT_NEAR(device.steps[i].loss, cpu.steps[i].loss, GetParam().tolerance * cpu.steps[i].loss)
        << "step " << i;
    EXPECT_NEAR(device.steps[i].grad_norm, cpu.steps[i].grad_norm,
                20 * GetParam().tolerance * cpu.steps[i].grad_norm)
        << "step " << i;
  }
  const Outcome again = run_on_devices(config, 1);
  for (size_t i = 0; i < again.steps.size(); ++i) EXPECT_EQ(bits(again.steps[i]), bits(device.steps[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceTraining,
    testing::Values(DeviceCase{"gpt2", "f32", "adamw", 1e-4}, DeviceCase{"llama", "f32", "sgd", 1e-4},
                    DeviceCase{"llama", "bf16", "adamw", 1e-2}, DeviceCase{"moe", "f32", "adamw", 1e-4}),
    [](const auto& each) {
      return fmt::format("{}_{}_{}", each.param.family, each.param.compute, each.param.optimizer);
    });

// Data parallelism over NCCL: with "tree" the bits of one device, with "fast" nearly so.
TEST(DevicesTraining, IsThatOfOneDevice) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  struct Layout {
    const char *optimizer, *reduce;
    int ranks;
  };
  for (const auto& [optimizer, reduce, ranks] : {Layout{"adamw", "tree", 2}, Layout{"sgd", "fast", 3}}) {
    SCOPED_TRACE(fmt::format("{} {}", optimizer, reduce));
    Config config = tiny("llama");
    config.optimizer.name = optimizer;
    config.parallel.reduce = reduce;
    config.parallel.bucket_bytes = 32 << 10;
    config.train.steps = 2;
    const Outcome one = run_on_devices(config, 1), several = run_on_devices(config, ranks);
    EXPECT_TRUE(same_bits(several, one) || std::string(reduce) == "fast");
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(several.steps[i].loss, one.steps[i].loss, 1e-4 * one.steps[i].loss);
      EXPECT_NEAR(several.steps[i].grad_norm, one.steps[i].grad_norm, 1e-3 * one.steps[i].grad_norm);
    }
  }
}

// So does ZeRO, whose shards of gradients, state and values travel over NCCL.
TEST(DevicesTraining, OfAnyStageOfZeroIsThatOfOneDevice) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  struct Layout {
    int zero, ranks;
    const char *optimizer, *compute, *reduce;
  };
  for (const auto& [zero, ranks, optimizer, compute, reduce] :
       {Layout{1, 2, "adamw", "bf16", "tree"}, Layout{1, 3, "sgd", "f32", "fast"},
        Layout{2, 3, "adamw", "bf16", "tree"}, Layout{2, 2, "sgd", "f32", "fast"},
        Layout{3, 3, "sgd", "bf16", "tree"}, Layout{3, 2, "adamw", "f32", "tree"}}) {
    SCOPED_TRACE(fmt::format("zero {} {} {} {} {}", zero, ranks, optimizer, compute, reduce));
    Config config = tiny("gpt2");
    config.optimizer.name = optimizer;
    config.precision.compute = compute;
    config.parallel.reduce = reduce;
    config.parallel.bucket_bytes = 32 << 10;
    config.train.global_batch_size = 6;
    config.train.steps = 2;
    const Outcome one = run_on_devices(config, 1);
    config.parallel.zero_stage = zero;
    const Outcome several = run_on_devices(config, ranks);
    EXPECT_TRUE(same_bits(several, one) || std::string(reduce) == "fast");
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(several.steps[i].loss, one.steps[i].loss, 1e-4 * one.steps[i].loss);
      EXPECT_NEAR(several.steps[i].grad_norm, one.steps[i].grad_norm, 1e-3 * one.steps[i].grad_norm);
    }
  }
}

// Tensor, sequence and pipeline parallelism: a model that several devices share.
TEST(DevicesTraining, OfASharedModelIsThatOfOneDevice) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  struct Layout {
    const char *family, *optimizer;
    int tp, pp, dp;
    bool sp;
  };
  for (const auto& [family, optimizer, tp, pp, dp, sp] :
       {Layout{"llama", "adamw", 2, 1, 1, false}, Layout{"gpt2", "sgd", 2, 1, 1, true},
        Layout{"llama", "sgd", 2, 1, 2, false}, Layout{"gpt2", "adamw", 1, 2, 1, false},
        Layout{"llama", "adamw", 2, 2, 1, true}, Layout{"moe", "sgd", 2, 1, 2, false},
        Layout{"moe_bias", "adamw", 2, 1, 1, true}}) {
    SCOPED_TRACE(fmt::format("{} {} tp {} pp {} dp {} sp {}", family, optimizer, tp, pp, dp, sp));
    Config config = tiny(family);
    config.optimizer.name = optimizer;
    config.precision.compute = "f32";
    config.train.global_batch_size = 6;
    config.train.steps = 2;
    const Outcome one = run_on_devices(config, 1);
    config.parallel.tp = tp;
    config.parallel.pp = pp;
    config.parallel.dp = dp;
    config.parallel.sp = sp;
    const Outcome several = run_on_devices(config, tp * pp * dp);
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(several.steps[i].loss, one.steps[i].loss, 1e-5 * one.steps[i].loss);
      EXPECT_NEAR(several.steps[i].grad_norm, one.steps[i].grad_norm, 1e-4 * one.steps[i].grad_norm);
    }
    double difference = 0, size = 0;
    ASSERT_EQ(several.weights.size(), one.weights.size());
    for (size_t i = 0; i < one.weights.size(); ++i) {
      difference += std::pow(double{several.weights[i]} - double{one.weights[i]}, 2);
      size += std::pow(double{one.weights[i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(size));
  }
}

std::string refusal_of(const Config& config, int ranks, const std::string& plugin) {
  try {
    open_device(config, ranks, plugin, nullptr);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

TEST(Device, WhatItCannotDoIsRefused) {
  Config config = tiny("llama");
  EXPECT_EQ(open_device(config, 4, "nowhere", nullptr)->device(), Device::cpu) << "auto";
  config.train.device = "cuda";
  EXPECT_EQ(open_device(config, 1, built("athanor_cuda_emulated.so"), nullptr)->device(), Device::cuda);
  EXPECT_EQ(open_device(config, 2, built("athanor_cuda_emulated.so"), nullptr)->device(), Device::cuda);
  EXPECT_EQ(refusal_of(config, 1, "nowhere"),
            "train.device: got 'cuda', expected auto or cpu here: cuda: there is no plug-in nowhere");
  config.parallel.zero_stage = 3;
  config.parallel.shard_degree = 2;
  EXPECT_EQ(refusal_of(config, 4, built("athanor_cuda_emulated.so")),
            "train.device = \"cuda\": got parallel.shard_degree = 2, expected 0 on devices");
  config.parallel.zero_stage = config.parallel.shard_degree = 0;
  config.offload.activations = "disk";
  EXPECT_EQ(
      refusal_of(config, 1, built("athanor_cuda_emulated.so")),
      "train.device = \"cuda\": got offload.activations = \"disk\", expected memory or host on a device");
  config.offload.activations = "host";
  config.offload.gradients = "disk";
  EXPECT_EQ(refusal_of(config, 1, built("athanor_cuda_emulated.so")),
            "train.device = \"cuda\": got offload.gradients = \"disk\", expected memory on a device");
  config.offload.gradients = "memory";
  config.parallel.cp = 2;
  EXPECT_EQ(refusal_of(config, 2, built("athanor_cuda_emulated.so")),
            "train.device = \"cuda\": got parallel.cp = 2, expected 1 on devices");
}

TEST(Device, RanksOfSeveralNeedNccl) {
  run_ranks(make_thread_worlds(2), [](World& host) {
    Config config = tiny("llama");
    const auto cpu = open_device(config, 2, "nowhere", nullptr);
    Arena on_cpu(*cpu);
    EXPECT_EQ(open_device_world(config, host, "nowhere", *cpu, on_cpu), nullptr);
    const auto refusal = [&](Queue& queue, Arena& arena) -> std::string {
      try {
        open_device_world(config, host, "nowhere", queue, arena);
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "no ConfigError";
    };
    config.parallel.transport = "nccl";
    EXPECT_EQ(refusal(*cpu, on_cpu),
              "parallel.transport = \"nccl\": got ranks on the CPU, expected train.device = \"cuda\"");
    config.train.device = "cuda";
    const auto cuda = open_device(config, 2, built("athanor_cuda_emulated.so"), nullptr);
    Arena on_device(*cuda);
    EXPECT_EQ(refusal(*cuda, on_device),
              "parallel.transport: ranks on devices need NCCL: nccl: there is no plug-in nowhere");
    const auto world = open_device_world(config, host, built("athanor_cuda_emulated.so"), *cuda, on_device);
    EXPECT_EQ(world->size(), 2);
  });
}

}  // namespace
}  // namespace athanor::tests::device_test
