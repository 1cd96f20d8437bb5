// The host's side of a device: the plug-in, the queue, its memory and what it says when something is wrong.
#include "athanor/kernels/cuda/queue.h"

#include <cstdio>
#include <fstream>
#include <numeric>

#include "athanor/kernels/cuda/plugin.h"
#include "cuda/device_queue.h"
#include "kernels/kernel_test.h"
#include "support/places.h"
#include "support/temporary_folder.h"

namespace athanor::tests::queue_test {
namespace {

std::string hint_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.hint();
  }
  return "no failure";
}

TEST(CudaPlugin, WhatIsWrongWithItIsSaid) {
  EXPECT_EQ(error_of([] { load_cuda("/nowhere/athanor_cuda.so"); }),
            "cuda: there is no plug-in /nowhere/athanor_cuda.so");
  EXPECT_NE(hint_of([] { load_cuda("/nowhere/athanor_cuda.so"); }).find("cmake --preset cuda"),
            std::string::npos);
  const std::string text = temporary_path("no_plugin.so");
  std::ofstream(text) << "text";
  EXPECT_NE(error_of([&] { load_cuda(text); }).find("cuda: cannot load " + text), std::string::npos);
  std::remove(text.c_str());
  EXPECT_NE(error_of([] {
              load_cuda(built("tests/cuda_other_version.so"));
            }).find(fmt::format("is of version 0, expected {}", CudaCalls::kVersion)),
            std::string::npos);
  EXPECT_EQ(describe_cuda("/nowhere/athanor_cuda.so"), "cuda: there is no plug-in /nowhere/athanor_cuda.so");
  EXPECT_EQ(describe_cuda(tested_plugin()).substr(0, 8), "cuda 0: ");
}

TEST(CudaPlugin, DevicesThatCannotServeAreRefused) {
  CudaCalls calls = tested_calls();
  EXPECT_EQ(error_of([&] { check_cuda_device(calls, 99); }).substr(0, 20), "cuda: got device 99,");
  calls.describe = [](int, CudaDevice* d) -> const char* {
    *d = {.name = "T4",
          .major = 7,
          .minor = 5,
          .driver_version = 0,
          .multiprocessors = 1,
          .clock_mhz = 0,
          .memory_bytes = 1,
          .free_bytes = 1};
    return nullptr;
  };
  EXPECT_EQ(error_of([&] { check_cuda_device(calls, 0); }),
            "cuda: T4 is too old: got compute capability 7.5, expected 8.0 or newer");
  calls.count_devices = [](int*) { return "no driver"; };
  EXPECT_EQ(error_of([&] { make_cuda_queue(calls, 0, nullptr); }), "cuda: no device can be used: no driver");
}

class CudaQueueTest : public testing::Test {
 protected:
  CudaQueue queue_{tested_calls(), 0, nullptr};
  Arena arena_{queue_};
};

TEST_F(CudaQueueTest, CopiesAreInOrderAndTakeWhatTheHostHadThen) {
  Tensor x = empty(arena_, {3}, Dtype::f32, Category::activations);
  Tensor y = empty_like(x);
  std::vector<float> values{1, 2, 3}, got(3);
  copy_from_host(x, values.data(), x.size_bytes());
  copy(y, x);
  values = {4, 5, 6};
  copy_from_host(x, values.data(), x.size_bytes());
  kernels_of(y).elementwise.accumulate(queue_, y, x);
  values = {0, 0, 0};
  copy_to_host(got.data(), y, y.size_bytes());
  EXPECT_EQ(got, (std::vector<float>{5, 7, 9}));
  fill_zero(y);
  copy_to_host(got.data(), y, y.size_bytes());
  EXPECT_EQ(got, values);
}

TEST_F(CudaQueueTest, CopiesOfManyPiecesGoAroundTheRing) {
  std::vector<int32_t> values(5'000'003), got(values.size());  // 19 pieces of a ring of 8
  std::iota(values.begin(), values.end(), -7);
  Tensor x = empty(arena_, {std::ssize(values)}, Dtype::i32, Category::activations);
  copy_from_host(x, values.data(), x.size_bytes());
  copy_to_host(got.data(), x, x.size_bytes());
  EXPECT_TRUE(got == values);
}

TEST_F(CudaQueueTest, TheArenaCountsAsThatOfAPlan) {
  const auto null = make_null_queue();
  Arena plan(*null);
  for (Arena* arena : {&arena_, &plan}) {
    const auto kept = arena->allocate(3'000'000, Category::parameters);
    for (const uint64_t size_bytes : {100u, 7'000'001u, 64u})
      arena->allocate(size_bytes, Category::activations);
    EXPECT_EQ(arena->usage().current_total, 3'000'000u);
  }
  EXPECT_EQ(arena_.usage().peak, plan.usage().peak);
  EXPECT_EQ(arena_.usage().peak_total, plan.usage().peak_total);
  EXPECT_EQ(arena_.usage().reserved_total, plan.usage().reserved_total);
}

TEST_F(CudaQueueTest, MemoryGoesBackAndWhatDoesNotFitIsSaid) {
  const auto free_bytes = [] { return check_cuda_device(tested_calls(), 0).free_bytes; };
  const uint64_t before = free_bytes();
  {
    Arena arena(queue_);
    const auto some = arena.allocate(1000, Category::optimizer);
    EXPECT_LT(free_bytes(), before);
    try {
      arena.allocate(uint64_t{1} << 50, Category::activations);
      FAIL() << "a petabyte was granted";
    } catch (const OverLimit& error) {
      EXPECT_NE(
          std::string(error.what()).find("memory: the device has no 1125899906842624 bytes more; in use:"),
          std::string::npos)
          << error.what();
    }
  }
  EXPECT_GE(free_bytes(), before);  // a driver may give back more than it took
}

TEST_F(CudaQueueTest, ZeroedMemoryThatWasUsedBeforeIsZero) {
  for (int round = 0; round < 2; ++round) {
    Tensor x = zeros(arena_, {1000}, Dtype::f32, Category::gradients);
    std::vector<float> got(1000);
    copy_to_host(got.data(), x, x.size_bytes());
    EXPECT_EQ(got, std::vector<float>(1000, 0.0f));
    fill(x, 7.0f);
  }
}

// The device leaves out what the CPU would refuse, and the next wait throws.
TEST_F(CudaQueueTest, WhatAKernelFindsWrongIsThrownByTheNextWait) {
  const auto ids_of = [&](const std::vector<int32_t>& ids) {
    Tensor x = empty(arena_, {1, std::ssize(ids)}, Dtype::i32, Category::activations);
    copy_from_host(x, ids.data(), x.size_bytes());
    return x;
  };
  Tensor table = empty(arena_, {4, 3}, Dtype::f32, Category::parameters);
  Tensor y = empty(arena_, {1, 3, 3}, Dtype::f32, Category::activations);
  fill(table, 1.0f);
  const KernelTable& all = queue_.table();
  all.embedding.forward(queue_, y, ids_of({0, 1, 4}), table, nullptr, 0);
  EXPECT_EQ(error_of([&] { queue_.wait(); }), "embedding: id 4 at position 2, expected less than 4");
  EXPECT_EQ(values_of(y), (Values{1, 1, 1, 1, 1, 1, 0, 0, 0}));

  Tensor loss = empty(arena_, {2}, Dtype::f32, Category::activations);
  Tensor logits = zeros(arena_, {2, 5}, Dtype::f32, Category::activations);
  all.cross_entropy.rows(queue_, loss, nullptr, logits, ids_of({-1, 5}), 5, 1.0f);
  EXPECT_EQ(error_of([&] { queue_.wait(); }), "cross_entropy: target 5 at position 1, expected less than 5");
  EXPECT_EQ(error_of([&] { queue_.wait(); }), "no error");
}

TEST_F(CudaQueueTest, ALaunchThatIsRefusedIsNamed) {
  Tensor q = empty(arena_, {1, 2, 1, 300}, Dtype::bf16, Category::activations), o = empty_like(q);
  Tensor lse = empty(arena_, {1, 1, 2}, Dtype::f32, Category::activations);
  try {
    queue_.table().attention.forward(queue_, o, lse, q, q, q, 1.0f, {});
    FAIL() << "a head of 300 was taken";
  } catch (const Recoverable& refused) {
    EXPECT_STREQ(
        refused.what(),
        "cuda: attention.forward of bf16 [1,2,1,300]: attention's heads have 256 elements at most on this "
        "device");
  }
  EXPECT_EQ(error_of([&] { queue_.wait(); }), "no error");
}

TEST_F(CudaQueueTest, AFailureNamesTheLastKernels) {
  CudaCalls calls = tested_calls();
  static const CudaCalls* real;
  static bool broken;
  real = &tested_calls();
  broken = false;
  calls.wait = [](CudaCalls::Stream* stream) {
    return broken ? "unspecified launch failure" : real->wait(stream);
  };
  CudaQueue queue(calls, 0, nullptr);
  Arena arena(queue);
  Tensor x = zeros(arena, {4}, Dtype::f32, Category::activations);
  kernels_of(x).elementwise.scale(queue, x, 2.0f);
  kernels_of(x).gelu.forward(queue, x, x, GeluForm::tanh);
  broken = true;
  EXPECT_EQ(
      error_of([&] { queue.wait(); }),
      "cuda: device 0 failed: unspecified launch failure; the last kernels submitted: scale, gelu.forward");
  broken = false;
}

TEST_F(CudaQueueTest, ContractsAreThoseOfTheCpu) {
  Tensor x = zeros(arena_, {4}, Dtype::f32, Category::activations);
  Tensor y = zeros(arena_, {5}, Dtype::f32, Category::activations);
  EXPECT_EQ(error_of([&] { queue_.table().gelu.forward(queue_, y, x, GeluForm::tanh); }),
            "gelu.forward: y is f32 [5], expected f32 [4]");
}

using CudaQueueDeathTest = CudaQueueTest;
TEST_F(CudaQueueDeathTest, TheHostCannotReadTheEmulatedDevicesMemory) {
  if (std::string(queue_.calls().name) != "emulated") GTEST_SKIP() << "about the emulated device";
  Tensor x = zeros(arena_, {4}, Dtype::f32, Category::activations);
  queue_.wait();
  EXPECT_DEATH(std::printf("%g", static_cast<double>(*static_cast<volatile float*>(x.raw()))), "");
}

}  // namespace
}  // namespace athanor::tests::queue_test
