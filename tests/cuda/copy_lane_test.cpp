// Copies beside a queue: each comes after what the queue was given before it, and before what it is given once it has
// awaited it, whenever the device makes them.
#include "athanor/tensor/copy_lane.h"

#include "athanor/kernels/cuda/queue.h"
#include "cuda/device_queue.h"
#include "kernels/kernel_test.h"
#include "support/side_streams.h"

namespace athanor::tests::copy_lane_test {
namespace {

class CudaCopyLaneTest : public testing::TestWithParam<bool> {
 protected:
  Tensor floats(int64_t count) { return empty(arena_, {count}, Dtype::f32, Category::workspace); }
  // Adds one to every element.
  void raise(Tensor& x) {
    Tensor ones = floats(x.numel());
    fill(ones, 1);
    kernels_of(x).elementwise.accumulate(queue_, x, ones);
  }

  // On a GPU copies are as late or as early as they are.
  void SetUp() override {
    if (GetParam() && !device_is_emulated()) GTEST_SKIP() << "about the emulated device";
  }

  SideStreams streams_{tested_plugin(), GetParam() && device_is_emulated()};
  CudaQueue queue_{tested_calls(), 0, nullptr};
  Arena arena_{queue_};
  std::unique_ptr<CopyLane> lane_ = queue_.open_copy_lane();
};
INSTANTIATE_TEST_SUITE_P(Copies, CudaCopyLaneTest, testing::Bool(),
                         [](const auto& copies) { return copies.param ? "early" : "late"; });

TEST_P(CudaCopyLaneTest, CopiesAreBetweenWhatTheQueueIsGiven) {
  constexpr int64_t kCount = 1001;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  const auto there = lane_->allocate_pinned(kBytes);
  for (const uint64_t at : {uint64_t{0}, kBytes / 2, kBytes - 1}) EXPECT_EQ(there.get()[at], std::byte{0});
  Tensor x = floats(kCount), y = floats(kCount);
  fill(x, 1);
  fill(y, -1);
  raise(x);
  lane_->await(lane_->start(there.get(), x.raw(), kBytes));
  raise(x);  // what went out does not see it
  lane_->await(lane_->start(y.raw(), there.get(), kBytes));
  raise(y);
  EXPECT_EQ(values_of(y), Values(kCount, 3.0));
  EXPECT_EQ(values_of(x), Values(kCount, 3.0));
}

// An old copy may be awaited when many others were started since; none and all, too.
TEST_P(CudaCopyLaneTest, AnyCopyCanBeAwaited) {
  constexpr int kCopies = 50;
  const auto there = lane_->allocate_pinned(kCopies * sizeof(float));
  const auto place = [&](int i) { return there.get() + static_cast<size_t>(i) * sizeof(float); };
  lane_->await(0);
  lane_->await_all();
  Tensor x = floats(1), all = floats(kCopies);
  fill(x, 0);
  fill(all, 0);
  uint64_t first = 0;
  for (int i = 0; i < kCopies; ++i) {
    const uint64_t copy = lane_->start(place(i), x.raw(), sizeof(float));
    EXPECT_EQ(copy, static_cast<uint64_t>(i) + 1);
    if (i == 0) first = copy;
    lane_->await(copy);
    raise(x);
  }
  for (int i = 0; i < kCopies; ++i) lane_->start(all.flat(kCopies - 1 - i, 1).raw(), place(i), sizeof(float));
  lane_->await(first);
  lane_->await_all();
  Values expected;
  for (int i = kCopies - 1; i >= 0; --i) expected.push_back(i);
  EXPECT_EQ(values_of(all), expected);
}

TEST_P(CudaCopyLaneTest, ItsEndWaitsForItsCopies) {
  const auto there = lane_->allocate_pinned(sizeof(float));
  Tensor x = floats(1);
  fill(x, 7);
  lane_->start(there.get(), x.raw(), sizeof(float));
  lane_.reset();
  float value = 0;
  std::memcpy(&value, there.get(), sizeof value);
  EXPECT_EQ(value, 7.0f);
}

TEST(CudaCopyLane, SaysWhatTheDeviceRefuses) {
  CudaCalls calls = tested_calls();
  calls.allocate_pinned = [](uint64_t size_bytes, void** data) -> const char* {
    return size_bytes > (uint64_t{1} << 30) ? "out of memory"
                                            : tested_calls().allocate_pinned(size_bytes, data);
  };
  CudaQueue queue(calls, 0, nullptr);
  const auto lane = queue.open_copy_lane();
  EXPECT_EQ(error_of([&] { lane->allocate_pinned(uint64_t{1} << 40); }),
            "cuda: 1099511627776 bytes of pinned memory of the host: out of memory");
}

}  // namespace
}  // namespace athanor::tests::copy_lane_test
