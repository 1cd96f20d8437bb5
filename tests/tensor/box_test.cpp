#include "athanor/tensor/box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace athanor::tests::box_test {
namespace {

// Where each element of a box lies in the whole, counted out dimension by dimension.
std::vector<int64_t> places(const Shape& whole, const Box& box) {
  std::vector<int64_t> found;
  for (int64_t n = 0; n < whole.numel(); ++n) {
    int64_t rest = n;
    bool inside = true;
    for (int d = whole.dims() - 1; d >= 0; --d) {
      const int64_t at = rest % whole[d] - box.offset[d];
      inside = inside && at >= 0 && at < box.extent[d];
      rest /= whole[d];
    }
    if (inside) found.push_back(n);
  }
  return found;
}

struct Case {
  Shape whole;
  Box box;
};
const Case kCases[] = {{{}, {{}, {}}},
                       {{5}, {{0}, {5}}},
                       {{5}, {{2}, {2}}},
                       {{5}, {{5}, {0}}},
                       {{4, 6}, {{0, 0}, {4, 6}}},
                       {{4, 6}, {{1, 0}, {2, 6}}},
                       {{4, 6}, {{0, 2}, {4, 3}}},
                       {{4, 6}, {{1, 5}, {3, 1}}},
                       {{3, 4, 5}, {{0, 1, 0}, {3, 2, 5}}},
                       {{3, 4, 5}, {{1, 1, 2}, {2, 3, 2}}},
                       {{0, 4}, {{0, 0}, {0, 4}}}};

TEST(Box, RunsCoverTheBoxInOrder) {
  for (const Case& c : kCases) {
    const auto expected = places(c.whole, c.box);
    const auto count = static_cast<int64_t>(expected.size());
    ASSERT_EQ(c.box.extent.numel(), count) << str(c.whole);
    const BoxRuns runs(c.whole, c.box);
    for (int64_t first = 0; first <= count; ++first)
      for (int64_t last = first; last <= count; ++last) {
        std::vector<int64_t> got;
        runs.walk(first, last, [&](int64_t in_box, int64_t in_whole, int64_t length) {
          EXPECT_EQ(in_box, first + static_cast<int64_t>(got.size()));
          for (int64_t i = 0; i < length; ++i) got.push_back(in_whole + i);
        });
        EXPECT_EQ(got, std::vector<int64_t>(expected.begin() + first, expected.begin() + last))
            << str(c.whole);
      }
  }
}

TEST(Box, ClippedStretchesAreWhatTheBoxHasOfThem) {
  for (const Case& c : kCases) {
    const auto expected = places(c.whole, c.box);
    const BoxRuns runs(c.whole, c.box);
    const int64_t total = c.whole.numel();
    for (int64_t first = 0; first < total; ++first)
      for (int64_t count = 0; count <= total - first; ++count) {
        std::vector<int64_t> got(expected.size(), -1);
        runs.clip(first, count, [&](int64_t in_box, int64_t in_stretch, int64_t length) {
          for (int64_t i = 0; i < length; ++i) got[static_cast<size_t>(in_box + i)] = first + in_stretch + i;
        });
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(got[i], expected[i] >= first && expected[i] < first + count ? expected[i] : -1)
              << str(c.whole) << str(c.box.extent) << " " << first << "+" << count;
      }
  }
}

TEST(Box, KnowsWhatIsInsideAndWhatOverlaps) {
  EXPECT_TRUE(is_inside({{1, 0}, {3, 6}}, {4, 6}));
  EXPECT_FALSE(is_inside({{2, 0}, {3, 6}}, {4, 6}));
  EXPECT_FALSE(is_inside({{0}, {4}}, {4, 6}));
  EXPECT_TRUE(overlap({{0, 0}, {2, 2}}, {{1, 1}, {2, 2}}));
  EXPECT_FALSE(overlap({{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}));
  EXPECT_FALSE(overlap({{0, 0}, {2, 2}}, {{1, 1}, {0, 2}}));
  EXPECT_THROW(BoxRuns({4, 6}, {{2, 0}, {3, 6}}), Error);
}

TEST(Box, CopiesWhatTwoBoxesShare) {
  for (const Case& from : kCases)
    for (const Case& to : kCases) {
      if (!(from.whole == to.whole)) continue;
      const auto source_places = places(from.whole, from.box), target_places = places(to.whole, to.box);
      std::vector<float> source(source_places.begin(), source_places.end());
      std::vector<float> target(target_places.size(), -1.0f);
      copy_shared(from.whole, from.box, source.data(), to.box, target.data());
      int64_t shared = 0;
      for (size_t i = 0; i < target.size(); ++i) {
        const bool is_shared =
            std::find(source_places.begin(), source_places.end(), target_places[i]) != source_places.end();
        shared += is_shared ? 1 : 0;
        EXPECT_EQ(target[i], is_shared ? static_cast<float>(target_places[i]) : -1.0f) << str(from.whole);
      }
      const auto box = shared_box(from.box, to.box);
      EXPECT_EQ(box ? box->extent.numel() : 0, shared) << str(from.whole);
    }
}

}  // namespace
}  // namespace athanor::tests::box_test
