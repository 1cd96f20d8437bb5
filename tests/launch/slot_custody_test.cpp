#include "athanor/launch/slot_custody.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/control/messages.h"

namespace athanor::tests::slot_custody_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Given = std::vector<int>;

TEST(SlotCustody, NothingBeforeAGenerationHasBegun) {
  SlotCustody custody;
  EXPECT_EQ(custody.generation(), -1);
  EXPECT_THAT(custody.hand_over({1, 2}), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(SlotCustody, ToTheSameRankElseToTheFirst) {
  SlotCustody custody;
  custody.begun(3, {10, 11, 12, 13});
  EXPECT_THAT(custody.hand_over({10, 14, 12, 13}), ElementsAre(Given{}, Given{1}, Given{}, Given{}));
  EXPECT_THAT(custody.hand_over({10, 14}), ElementsAre(Given{2, 3}, Given{}));
  EXPECT_THAT(custody.hand_over({15, 14}),
              ElementsAre(Given{0, 2, 3}, Given{}));  // rank 0, too, was replaced
  EXPECT_THAT(custody.hand_over({15, 14, 16}), ElementsAre(Given{}, Given{}, Given{}));
  custody.begun(5, {15, 14});
  EXPECT_EQ(custody.generation(), 5);
  EXPECT_THAT(custody.hand_over({17, 14}), ElementsAre(Given{0}, Given{}));
}

// A message carries so many descriptors and no more.
TEST(SlotCustody, WhatIsTooMuchForOneGoesToTheNext) {
  std::vector<int> many(2 * static_cast<size_t>(kMostLeft));
  std::iota(many.begin(), many.end(), 0);
  SlotCustody custody;
  custody.begun(0, many);
  const auto given = custody.hand_over({1000, 1001});
  EXPECT_EQ(given[0].size(), static_cast<size_t>(kMostLeft));
  EXPECT_EQ(given[1].size(), static_cast<size_t>(kMostLeft));
  EXPECT_EQ(given[1].front(), 1);  // its own predecessor's
  SlotCustody more;
  many.push_back(5000);
  more.begun(0, many);
  EXPECT_THROW(more.hand_over({1000, 1001}), Error);
}

}  // namespace
}  // namespace athanor::tests::slot_custody_test
