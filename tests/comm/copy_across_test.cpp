#include "athanor/comm/copy_across.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace athanor::tests::copy_across_test {
namespace {

constexpr size_t kLong = 16384;

// A clock by which each copy of some length takes as long as was said last: it is looked at before and after.
struct CopyClock {
  int64_t now = 0, copy_ns = 0;
  int looks = 0;
  CopyAcross across{[this] { return now += ++looks % 2 == 0 ? copy_ns : 0; }};

  void copy(int64_t ns, size_t bytes = kLong) {
    copy_ns = ns;
    std::vector<std::byte> from(bytes, std::byte{7}), to(bytes);
    across.copy(to.data(), from.data(), bytes);
    EXPECT_EQ(from, to);
  }
};

constexpr int64_t kFast = kLong / 7, kSlow = kLong / 2;
constexpr int kPatience = 4, kStreams = 128;

TEST(CopyAcross, CopiesWhatItShouldAndNoMoreOnEitherWay) {
  for (const bool past : {false, true})
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{63}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{70001}})
      for (const size_t to_offset : {size_t{0}, size_t{1}, size_t{15}, size_t{63}, size_t{64}})
        for (const size_t from_offset : {size_t{0}, size_t{3}, size_t{32}}) {
          CopyClock clock;
          if (past)
            for (int i = 0; i < kPatience; ++i) clock.copy(kSlow);
          ASSERT_EQ(clock.across.past_caches(), past);
          std::vector<std::byte> from(bytes + 128), to(bytes + 192, std::byte{0xee});
          for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 251);
          std::vector<std::byte> expected = to;
          if (bytes > 0) std::memcpy(expected.data() + to_offset, from.data() + from_offset, bytes);
          clock.across.copy(to.data() + to_offset, from.data() + from_offset, bytes);
          ASSERT_EQ(to, expected) << bytes << " bytes from " << from_offset << " to " << to_offset;
        }
}

TEST(CopyAcross, SomeSlowCopiesChangeNothing) {
  CopyClock clock;
  for (int i = 0; i < 5 * kPatience; ++i) {
    clock.copy(i % kPatience == 0 ? kFast : kSlow);
    EXPECT_FALSE(clock.across.past_caches());
  }
}

TEST(CopyAcross, GoesPastTheCachesAfterManySlowCopiesAndTriesAgain) {
  CopyClock clock;
  for (int i = 0; i < kPatience; ++i) clock.copy(kSlow);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      ASSERT_TRUE(clock.across.past_caches()) << i;
      clock.copy(kSlow);
    }
    EXPECT_FALSE(clock.across.past_caches());
    clock.copy(kSlow);  // the try
  }
  for (int i = 0; i < kStreams; ++i) clock.copy(kSlow);
  clock.copy(kFast);
  for (int i = 1; i < kPatience; ++i) clock.copy(kSlow);  // as if they were the first
  EXPECT_FALSE(clock.across.past_caches());
  clock.copy(kSlow);
  EXPECT_TRUE(clock.across.past_caches());
}

TEST(CopyAcross, FewBytesAreNotTimed) {
  CopyClock clock;
  for (int i = 0; i < 5; ++i) clock.copy(1'000'000, 4095);
  EXPECT_EQ(clock.looks, 0);
  EXPECT_FALSE(clock.across.past_caches());
}

}  // namespace
}  // namespace athanor::tests::copy_across_test
