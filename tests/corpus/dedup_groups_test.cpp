#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "athanor/base/error.h"
#include "athanor/corpus/dedup/components.h"
#include "athanor/corpus/dedup/duplicate_pairs.h"

namespace athanor::tests::dedup_groups_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

KeyRecord record_of(uint64_t key, uint64_t document, uint32_t begin = 0) {
  return {{key, 0}, document, begin, begin + 1};
}

using Numbers = std::vector<std::pair<uint64_t, uint64_t>>;

Numbers pairs_of(const std::vector<KeyRecord>& records, const DuplicatePairs::Survives& survives) {
  Numbers out;
  DuplicatePairs pairs(survives, [&](const KeyRecord& first, const KeyRecord& later) {
    out.emplace_back(first.document, later.document);
  });
  for (const KeyRecord& record : records) pairs.add(record);
  EXPECT_EQ(pairs.pairs(), out.size());
  return out;
}

bool all_survive(uint64_t) {
  return true;
}

TEST(DuplicatePairsTest, TheFirstOfAKeyWithEachLaterOne) {
  EXPECT_THAT(pairs_of({}, all_survive), IsEmpty());
  EXPECT_THAT(pairs_of({record_of(0, 0)}, all_survive), IsEmpty());
  EXPECT_THAT(pairs_of({record_of(0, 4), record_of(0, 6), record_of(1, 2), record_of(2, 1),
                        record_of(2, 1, 9), record_of(2, 7)},
                       all_survive),
              ElementsAre(Pair(4, 6), Pair(1, 1), Pair(1, 7)));
}

TEST(DuplicatePairsTest, CopiesOfADroppedDocumentStillFindEachOther) {
  const std::vector<KeyRecord> records = {record_of(5, 1), record_of(5, 2), record_of(5, 3), record_of(6, 2),
                                          record_of(6, 4)};
  EXPECT_THAT(pairs_of(records, [](uint64_t document) { return document != 1; }),
              ElementsAre(Pair(2, 3), Pair(2, 4)));
  EXPECT_THAT(pairs_of(records, [](uint64_t document) { return document != 2; }), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(pairs_of(records, [](uint64_t) { return false; }), IsEmpty());
}

TEST(DuplicatePairsTest, CountsGroups) {
  DuplicatePairs pairs(all_survive, [](const KeyRecord&, const KeyRecord&) {});
  for (const uint64_t key : {1, 1, 1, 2, 3, 3}) pairs.add(record_of(key, 0));
  EXPECT_EQ(pairs.groups(), 2U);
  EXPECT_EQ(pairs.pairs(), 3U);
}

TEST(DuplicatePairsTest, RecordsOutOfOrderAreRefused) {
  DuplicatePairs pairs(all_survive, [](const KeyRecord&, const KeyRecord&) {});
  pairs.add(record_of(2, 3));
  EXPECT_THROW(pairs.add(record_of(2, 2)), Error);
}

TEST(DuplicatePairsTest, PlacesSortByDocumentAndPosition) {
  std::vector<KeyRecord> places = {by_place(record_of(1, 9, 3)), by_place(record_of(2, 4, 8)),
                                   by_place(record_of(3, 4, 2))};
  std::sort(places.begin(), places.end());
  EXPECT_EQ(places[0].document, 4U);
  EXPECT_EQ(places[0].begin, 2U);
  EXPECT_EQ(places[1].begin, 8U);
  EXPECT_EQ(places[2].document, 9U);
}

TEST(ComponentsTest, TheLeastNumberIsKept) {
  Components components(6);
  EXPECT_EQ(components.num_components(), 6U);
  components.join(5, 3);
  components.join(3, 4);
  components.join(4, 5);
  EXPECT_EQ(components.kept_of(5), 3U);
  EXPECT_EQ(components.kept_of(4), 3U);
  EXPECT_TRUE(components.is_kept(3));
  EXPECT_FALSE(components.is_kept(4));
  EXPECT_TRUE(components.is_kept(0));
  components.join(1, 5);
  EXPECT_EQ(components.kept_of(3), 1U);
  EXPECT_EQ(components.num_components(), 3U);
  components.join(2, 2);
  EXPECT_EQ(components.num_components(), 3U);
}

TEST(ComponentsTest, NumbersBeyondTheEndAreRefused) {
  Components components(2);
  EXPECT_THROW(components.kept_of(2), Error);
  EXPECT_THROW(components.join(0, 2), Error);
  EXPECT_EQ(Components(0).num_documents(), 0U);
  EXPECT_THROW(Components(uint64_t{1} << 32), Error);
}

// Against a search over the pairs, and for several orders of them.
TEST(ComponentsTest, EqualsASearchForAnyOrderOfPairs) {
  constexpr uint64_t kDocuments = 300;
  std::mt19937 random(1);
  for (const size_t num_pairs : {0, 50, 150, 400}) {
    Numbers joined;
    for (size_t i = 0; i < num_pairs; ++i) joined.emplace_back(random() % kDocuments, random() % kDocuments);
    std::vector<uint64_t> least(kDocuments);
    for (uint64_t i = 0; i < kDocuments; ++i) least[i] = i;
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [left, right] : joined) {
        const uint64_t both = std::min(least[left], least[right]);
        changed |= least[left] != both || least[right] != both;
        least[left] = least[right] = both;
      }
    }
    for (int order = 0; order < 5; ++order) {
      std::shuffle(joined.begin(), joined.end(), random);
      Components components(kDocuments);
      for (const auto& [left, right] : joined) components.join(left, right);
      for (uint64_t i = 0; i < kDocuments; ++i) ASSERT_EQ(components.kept_of(i), least[i]);
    }
  }
}

TEST(ComponentsTest, ALongChain) {
  constexpr uint64_t kDocuments = 1000000;
  Components components(kDocuments);
  for (uint64_t i = kDocuments - 1; i > 0; --i) components.join(i, i - 1);
  EXPECT_EQ(components.kept_of(kDocuments - 1), 0U);
  EXPECT_EQ(components.num_components(), 1U);
}

}  // namespace
}  // namespace athanor::tests::dedup_groups_test
