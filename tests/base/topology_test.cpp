#include "athanor/base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>

#include "athanor/base/cpu.h"
#include "athanor/base/error.h"
#include "athanor/base/thread_pool.h"

namespace athanor::tests::topology_test {
namespace {

using Numbers = std::vector<int>;

Placement place(const std::vector<Core>& cores, int ranks, int rank, int threads) {
  return place_rank(cores, {.ranks = ranks, .rank = rank, .threads = threads});
}

TEST(Placement, NobodyIsBoundUnderAQuota) {
  const auto cores = synthetic_cores("numa:1 core:2 pu:1");
  EXPECT_TRUE(place_rank(cores, {.ranks = 1, .rank = 0, .threads = 2}).pinned());
  const Placement place = place_rank(cores, {.ranks = 1, .rank = 0, .threads = 2, .cpu_quota = 1.5});
  EXPECT_FALSE(place.pinned());
  EXPECT_EQ(place.text(), "not bound: a quota of 1.5 CPUs");
}

TEST(Topology, ReadsNodesCoresAndHyperthreads) {
  const auto cores = synthetic_cores("numa:2 core:2 pu:2");
  const std::vector<Core> expected = {{0, {0, 1}}, {0, {2, 3}}, {1, {4, 5}}, {1, {6, 7}}};
  EXPECT_EQ(cores, expected);
  EXPECT_EQ(synthetic_cores("pack:1 core:3 pu:1").size(), 3u);
  EXPECT_THROW(synthetic_cores("no machine"), Error);
}

TEST(Topology, KeepsToTheProcessorsThatAreAllowed) {
  const std::vector<Core> expected = {{0, {1}}, {1, {4, 5}}};
  EXPECT_EQ(synthetic_cores("numa:2 core:2 pu:2", Numbers{1, 4, 5}), expected);
}

TEST(Topology, OfThisMachineHasAllThatTheProcessMayUse) {
  size_t processors = 0;
  for (const Core& core : usable_cores()) processors += core.processors.size();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(processors, static_cast<size_t>(CPU_COUNT(&set)));
}

TEST(Placement, GivesEachThreadACoreBeforeHyperthreads) {
  const auto cores = synthetic_cores("core:4 pu:2");
  EXPECT_EQ(place(cores, 1, 0, 4).of_thread, (Numbers{0, 2, 4, 6}));
  EXPECT_EQ(place(cores, 1, 0, 6).of_thread, (Numbers{0, 2, 4, 6, 1, 3}));
  EXPECT_EQ(place(cores, 2, 1, 2).of_thread, (Numbers{4, 6}));
  EXPECT_EQ(place(cores, 2, 1, 4).of_thread, (Numbers{4, 6, 5, 7}));
}

TEST(Placement, KeepsARankOnOneNode) {
  const auto cores = synthetic_cores("numa:2 core:4 pu:1");
  for (int rank = 0; rank < 2; ++rank)
    for (const int p : place(cores, 2, rank, 4).processors) EXPECT_EQ(p / 4, rank);
  // Three even shares would put the second rank on both nodes.
  EXPECT_EQ(place(cores, 3, 0, 2).of_thread, (Numbers{0, 1}));
  EXPECT_EQ(place(cores, 3, 1, 2).processors, (Numbers{4, 5}));
  EXPECT_EQ(place(cores, 3, 2, 2).processors, (Numbers{6, 7}));
  // One rank of all threads is on both.
  EXPECT_EQ(place(cores, 1, 0, 8).processors, (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Placement, CrossesNodesWhereThreadsWouldShareAProcessor) {
  const auto cores = synthetic_cores("numa:2 core:4 pu:1", Numbers{0, 1, 2, 4});
  EXPECT_EQ(place(cores, 2, 0, 2).processors, (Numbers{0, 1}));
  EXPECT_EQ(place(cores, 2, 1, 2).processors, (Numbers{2, 4}));
}

// Whatever the machine and the job: all ranks together use no processor twice, and only allowed ones.
TEST(Placement, IsDisjoint) {
  const std::vector<std::vector<Core>> machines = {
      synthetic_cores("numa:2 core:4 pu:2"), synthetic_cores("numa:4 core:3 pu:1"),
      synthetic_cores("core:2 pu:1"), synthetic_cores("numa:2 core:4 pu:2", Numbers{0, 1, 2, 5, 9, 15}),
      synthetic_cores("numa:3 core:5 pu:2", Numbers{3, 4, 5, 6, 7, 20, 21, 29})};
  for (const auto& cores : machines) {
    std::set<int> allowed;
    for (const Core& core : cores) allowed.insert(core.processors.begin(), core.processors.end());
    for (int ranks = 1; ranks <= 17; ++ranks)
      for (int threads = 1; threads <= 17; ++threads) {
        const size_t all = static_cast<size_t>(ranks) * static_cast<size_t>(threads);
        std::set<int> owned, used;
        size_t num_owned = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Placement placement = place(cores, ranks, rank, threads);
          const bool expected = all <= allowed.size() && all + static_cast<size_t>(ranks) > cores.size();
          ASSERT_EQ(placement.pinned(), expected) << ranks << " " << threads << " " << placement.text();
          ASSERT_EQ(placement.reason.empty(), expected);
          if (!expected) continue;
          ASSERT_EQ(placement.of_thread.size(), static_cast<size_t>(threads));
          used.insert(placement.of_thread.begin(), placement.of_thread.end());
          owned.insert(placement.processors.begin(), placement.processors.end());
          num_owned += placement.processors.size();
        }
        if (owned.empty()) continue;
        EXPECT_EQ(used.size(), all);
        EXPECT_EQ(owned.size(), num_owned);
        EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), owned.begin(), owned.end()));
      }
  }
}

TEST(Placement, SaysWhyThreadsAreNotBound) {
  const auto cores = synthetic_cores("core:4 pu:1");
  EXPECT_EQ(place(cores, 1, 0, 3).text(), "not bound: 3 threads leave some of 4 cores to others");
  EXPECT_EQ(place(cores, 5, 0, 1).text(), "not bound: 5 threads are more than 4 processors");
  EXPECT_EQ(place({}, 1, 0, 1).text(), "not bound to cores, which are not known");
  EXPECT_EQ(place(cores, 2, 1, 2).text(), "pinned to cores 2-3");
  EXPECT_TRUE(place(cores, 1, 0, 3).thread(2).empty());
  EXPECT_THROW(place(cores, 2, 2, 1), Error);
}

Numbers processors_of_this_thread() {
  cpu_set_t set;
  Numbers numbers;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int p = 0; p < CPU_SETSIZE; ++p)
      if (CPU_ISSET(p, &set)) numbers.push_back(p);
  return numbers;
}

TEST(BoundThread, BindsUntilTheEndOfItsScope) {
  const Numbers before = processors_of_this_thread();
  const Numbers last = {before.back()};
  {
    const BoundThread bound(last);
    EXPECT_EQ(bound.refusal(), "");
    EXPECT_EQ(processors_of_this_thread(), last);
    std::thread([&] { EXPECT_EQ(processors_of_this_thread(), last); }).join();
    const BoundThread none({});
    EXPECT_EQ(processors_of_this_thread(), last);
  }
  EXPECT_EQ(processors_of_this_thread(), before);
}

TEST(BoundThread, SaysWhyItIsRefused) {
  const Numbers before = processors_of_this_thread(), missing = {60000};
  const BoundThread bound(missing);
  EXPECT_EQ(bound.refusal(), "cannot bind a thread to 60000: Invalid argument");
  EXPECT_EQ(processors_of_this_thread(), before);
}

TEST(BoundThread, ThreadsOfAPoolBindThemselves) {
  const Numbers before = processors_of_this_thread();
  ThreadPool pool(3, [&](int thread) {
    EXPECT_TRUE(thread == 1 || thread == 2);
    bind_this_thread(Numbers{before.front()});
    EXPECT_EQ(processors_of_this_thread(), Numbers{before.front()});
  });
  EXPECT_EQ(processors_of_this_thread(), before);
}

TEST(NumberRanges, JoinsNeighbours) {
  EXPECT_EQ(number_ranges({}), "");
  EXPECT_EQ(number_ranges({5}), "5");
  EXPECT_EQ(number_ranges({5, 0, 2, 1}), "0-2,5");
  EXPECT_EQ(number_ranges({0, 2, 3}), "0,2-3");
}

}  // namespace
}  // namespace athanor::tests::topology_test
