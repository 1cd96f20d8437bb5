// Worlds of some ranks, and the generation of a world, over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/hierarchical/hierarchical_world.h"
#include "athanor/comm/network/gloo/gloo.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/comm/shm/thread.h"
#include "comm/every_call.h"
#include "comm/forked.h"
#include "comm/meeting.h"
#include "comm/reference.h"
#include "support/tiers.h"

namespace athanor::tests::world_parts_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
using Body = std::function<void(World&)>;
using Outcomes = std::vector<std::string>;

// Runs body on a thread for each rank, in the world that `open` gives it.
Outcomes on_threads(const std::function<std::unique_ptr<World>(int rank)>& open, const Body& body) {
  Outcomes texts(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back(
        [&, rank] { texts[static_cast<size_t>(rank)] = outcome_of([&] { body(*open(rank)); }); });
  for (auto& thread : threads) thread.join();
  return texts;
}

Outcomes by_thread(const GroupOptions& options, const Body& body) {
  auto worlds = make_thread_worlds(kRanks, options);
  return on_threads([&](int rank) { return std::move(worlds[static_cast<size_t>(rank)]); }, body);
}

Outcomes by_shm(const GroupOptions& options, const Body& body) {
  const ShmSegment segment(kRanks, options.slot_bytes, options.generation);
  TestRanks ranks(kRanks, [&](int rank) { body(*open_shm_world(segment.fd(), rank, kRanks, options)); });
  return ranks.outcomes();
}

Outcomes by_gloo(const GroupOptions& options, const Body& body) {
  Meeting meeting(kRanks);
  return on_threads([&](int rank) { return make_gloo_world(meeting.place(rank), options); }, body);
}

Outcomes by_two_levels(const GroupOptions& options, const Body& body) {
  std::vector<std::vector<std::unique_ptr<World>>> hosts;
  for (int h = 0; h < 2; ++h) hosts.push_back(make_thread_worlds(2, options));
  auto everybody = make_thread_worlds(kRanks, options);
  return on_threads(
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        return make_hierarchical_world(std::move(hosts[r / 2][r % 2]), std::move(everybody[r]), options);
      },
      body);
}

struct Transport {
  const char* name;
  Outcomes (*run)(const GroupOptions& options, const Body& body);
};

class WorldParts : public ::testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    if (GetParam().run == by_gloo)
      LEAVE_OUT_UNDER(thread_sanitizer, "it sees the threads of Gloo only in part");
  }
  // Every rank but 0 is in the subset `workers`, with the group `pair` of its first two.
  static void run_workers(const std::function<void(World& world, World& workers, Group* pair)>& body) {
    const auto rank_body = [&](World& world) {
      const bool works = world.rank() > 0;
      const auto workers = works ? world.subset({1, 2, 3}, "workers") : nullptr;
      const auto pair = works && workers->rank() < 2 ? workers->make_group({0, 1}, "pair") : nullptr;
      world.all().barrier("all have made theirs");
      if (works) {
        body(world, *workers, pair.get());
        world.make_group({1, 2, 3}, "apart")->barrier("of the whole world");
      }
      world.all().barrier("end");
    };
    EXPECT_THAT(GetParam().run(patient(), rank_body), Each(""));
  }
};

INSTANTIATE_TEST_SUITE_P(Comm, WorldParts,
                         ::testing::Values(Transport{"thread", by_thread}, Transport{"shm", by_shm},
                                           Transport{"gloo", by_gloo},
                                           Transport{"two_levels", by_two_levels}),
                         [](const auto& one) { return one.param.name; });

// What the group says when it is broken; its calls succeed until that is known, however late the rank is that breaks it.
std::string end_of(Group& group) {
  return outcome_of([&] {
    for (;;) group.barrier("until it breaks");
  });
}

TEST_P(WorldParts, ASubsetIsAWorldOfItsRanks) {
  run_workers([](World& world, World& workers, Group* pair) {
    EXPECT_EQ(workers.rank(), world.rank() - 1);
    EXPECT_EQ(workers.size(), 3);
    EXPECT_EQ(workers.all().name(), "workers");
    EXPECT_EQ(try_every_call(workers.all()), "");
    if (pair != nullptr) {
      EXPECT_EQ(pair->rank(), workers.rank());
      EXPECT_EQ(try_every_call(*pair), "");
    }
    const auto last = workers.subset({workers.rank()}, "of a subset " + std::to_string(workers.rank()));
    EXPECT_EQ(last->make_group({0}, "alone " + std::to_string(workers.rank()))->size(), 1);
    const auto memory = workers.allocate(40'000);
    workers.all().share(memory, 40'000, "memory");
    auto* data = static_cast<float*>(static_cast<void*>(memory.get()));
    const auto mine = samples<float>(workers.rank(), 0, 10'000);
    std::copy(mine.begin(), mine.end(), data);
    workers.all().all_reduce(data, 10'000, Dtype::f32, "sum").wait();
    EXPECT_TRUE(same_bits(std::vector<float>(data, data + 10'000), serial_sums<float>(3, 0, 10'000)));
    EXPECT_EQ(outcome_of([&] {
                workers.make_group({workers.rank(), 3}, "x");
              }),
              "Error: group 'x': member 3, expected ranks of 0 ... 2");
    EXPECT_THROW(world.subset({0}, "not mine"), Error);
  });
}

TEST_P(WorldParts, AnAbortOfASubsetBreaksItsGroupsOnly) {
  run_workers([](World&, World& workers, Group* pair) {
    if (workers.rank() == 2) workers.abort("disk full");
    if (pair != nullptr) {
      EXPECT_THAT(end_of(*pair), HasSubstr("disk full"));
    }
    EXPECT_THAT(end_of(workers.all()), HasSubstr("disk full"));
    EXPECT_THAT(outcome_of([&] { workers.make_group({0, 1, 2}, "later"); }), HasSubstr("disk full"));
  });
}

TEST_P(WorldParts, AFailureOfAllOfASubsetBreaksItsGroupsOnly) {
  run_workers([](World&, World& workers, Group* pair) {
    EXPECT_THAT(outcome_of([&] { workers.all().barrier(workers.rank() == 2 ? "b" : "a"); }),
                HasSubstr("do not make the same collective"));
    if (pair != nullptr) {
      EXPECT_THAT(end_of(*pair), HasSubstr("do not make the same collective"));
    }
  });
}

TEST_P(WorldParts, AFailureOfAGroupLeavesTheSubset) {
  run_workers([](World&, World& workers, Group* pair) {
    if (pair != nullptr) {
      if (workers.rank() == 1) pair->abort("enough");
      EXPECT_THAT(end_of(*pair), HasSubstr("enough"));
    }
    workers.all().barrier("all");
  });
}

TEST_P(WorldParts, MessagesNameTheGeneration) {
  GroupOptions options = patient();
  options.generation = 2;
  const auto texts = GetParam().run(options, [](World& world) {
    EXPECT_EQ(world.generation(), 2);
    const auto tp = world.make_group({0, 1, 2, 3}, "tp");
    EXPECT_EQ(world.subset({0, 1, 2, 3}, "all")->generation(), 2);
    tp->barrier(world.rank() == 3 ? "b" : "a");
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("group 'tp"), HasSubstr("' of generation 2: the ranks do not"))));
}

}  // namespace
}  // namespace athanor::tests::world_parts_test
