// What is not finite is found wherever it stands and on whichever rank, and all ranks say the same.
#include "athanor/run/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "athanor/comm/shm/thread.h"
#include "support/engine.h"
#include "support/temporary_folder.h"

namespace athanor::tests::finite_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Finite, OneValueAnywhereIsEnough) {
  for (const int64_t count : {1, 2, 4095, 4096, 4097, 10000})
    for (const int64_t at : {int64_t{0}, count / 2, count - 1})
      for (const float value : {kNan, -kNan, kInfinity, -kInfinity}) {
        std::vector<float> values(static_cast<size_t>(count), kLargestFloat);
        values[0] = -0.0f;
        EXPECT_TRUE(all_within(values.data(), count, kLargestFloat));
        values[static_cast<size_t>(at)] = value;
        EXPECT_FALSE(all_within(values.data(), count, kLargestFloat)) << count << " " << at << " " << value;
      }
  EXPECT_TRUE(all_within(nullptr, 0, kLargestFloat));
  const float values[] = {65504.0f, -65504.0f, 65505.0f};
  EXPECT_TRUE(all_within(values, 2, largest_value(Dtype::f16)));
  EXPECT_FALSE(all_within(values, 3, largest_value(Dtype::f16)));
  EXPECT_TRUE(all_within(values, 3, largest_value(Dtype::bf16)));
}

struct BadValue {
  int rank;
  size_t tensor;  // of b's below
};

// Each rank has slices of the same tensors, or others: weights go before optimizer state, in the order of the ranks'
// lists.
TEST(Finite, AllRanksNameTheSameTensor) {
  const std::vector<std::string> names = {"adam.m.a", "model.a", "adam.v.b", "model.b"};
  struct Case {
    std::vector<BadValue> plants;
    const char* found;
  };
  for (const Case& c : std::vector<Case>{{{}, nullptr},
                                         {{{0, 3}}, "model.b"},
                                         {{{2, 2}}, "adam.v.b"},
                                         {{{0, 0}, {1, 3}}, "model.b"},
                                         {{{0, 2}, {2, 1}, {1, 3}}, "model.a"}}) {
    const auto groups = make_thread_groups(3);
    std::vector<std::optional<std::string>> found(3);
    run_ranks(groups, [&](Group& group) {
      Engine engine;
      std::vector<NamedTensor> tensors;
      for (const std::string& name : names) tensors.push_back({name, engine.random({5, 7}, name)});
      for (const BadValue& plant : c.plants)
        if (plant.rank == group.rank()) tensors[plant.tensor].tensor.data<float>()[17] = kNan;
      // One that is not in memory.
      tensors.push_back(
          {.name = "adam.m.disk",
           .tensor = {},
           .shape_elsewhere = {3},
           .read = [](int64_t, int64_t count, float* values) { std::fill_n(values, count, 1.0f); }});
      found[static_cast<size_t>(group.rank())] = first_not_finite(tensors, group);
    });
    for (const auto& each : found) {
      EXPECT_EQ(each.has_value(), c.found != nullptr);
      EXPECT_EQ(each.value_or(""), c.found == nullptr ? "" : c.found);
    }
  }
}

TEST(Finite, WhatIsNotInMemoryIsReadToItsEnd) {
  const auto group = make_single_group();
  constexpr int64_t kCount = (1 << 18) + 5;
  const NamedTensor tensor{.name = "adam.v.disk",
                           .tensor = {},
                           .shape_elsewhere = {kCount},
                           .read = [](int64_t first, int64_t count, float* values) {
                             for (int64_t i = 0; i < count; ++i)
                               values[i] = first + i == kCount - 1 ? kInfinity : 1.0f;
                           }};
  EXPECT_EQ(first_not_finite({tensor}, *group), "adam.v.disk");
}

TEST(Finite, TheFaultOfAStep) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  struct Case {
    StepResult result;
    StepMetrics metrics;
    const char* said;
  };
  StepResult good, lost, endless, skipped, stuck;
  lost.loss = nan;
  endless.loss = infinity;
  skipped.applied = false;
  skipped.loss_scale = 1024;
  stuck.applied = false;
  stuck.loss_scale = LossScale::kMin;
  good.channel_loss = {nan};  // a channel without tokens in this step
  for (const Case& c : std::vector<Case>{
           {good, {.step = 7}, ""},
           {lost, {.step = 7}, "step 7: the loss is not finite"},
           {endless, {.step = 7}, "step 7: the loss is not finite"},
           {skipped, {.step = 7}, ""},
           {stuck, {.step = 7}, "step 7: gradients overflow at the smallest loss scale, 5.96046e-08"},
           {good, {.step = 8, .valid_loss = 2.0, .valid_channel_loss = {{"a", 2.0}}}, ""},
           {good, {.step = 8, .valid_loss = nan}, "step 8: the validation loss is not finite"},
           {good,
            {.step = 8, .valid_loss = nan, .valid_channel_loss = {{"a", 2.0}, {"b", nan}}},
            "step 8: the validation loss of channel 'b' is not finite"}})
    EXPECT_EQ(fault_of_step(c.result, c.metrics), c.said);
}

TEST(Finite, TheLastFiniteCheckpoint) {
  const TemporaryFolder folder;
  const auto group = make_single_group();
  Engine engine;
  const std::vector<NamedTensor> tensors = {{"model.a", engine.random({40}, "a")}};
  for (const int64_t step : {2, 4, 6, 8}) {
    tensors[0].tensor.data<float>()[3] = step < 6 ? 1.0f : kNan;
    write_checkpoint(system_env(), *group, folder.path("c"),
                     {.step = step, .state = "{}", .tensors = tensors, .files = {}});
  }
  const std::string four = folder.path("c/step_00000004"), two = folder.path("c/step_00000002");
  EXPECT_EQ(last_finite_checkpoint(system_env(), folder.path("c"), 100), four);
  EXPECT_EQ(last_finite_checkpoint(system_env(), folder.path("c"), 4), two);
  EXPECT_EQ(last_finite_checkpoint(system_env(), folder.path("c"), 2), "");
  system_env().write_atomically(four + "/manifest.json", "damaged");
  EXPECT_EQ(last_finite_checkpoint(system_env(), folder.path("c"), 100), two);
}

}  // namespace
}  // namespace athanor::tests::finite_test
