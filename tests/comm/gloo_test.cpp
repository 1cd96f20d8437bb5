// The gloo transport on this host's loopback: ranks as threads, each with a world of its own, and as processes.
#include "athanor/comm/network/gloo/gloo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/network/control_connection.h"
#include "comm/every_call.h"
#include "comm/forked.h"
#include "comm/meeting.h"
#include "comm/reference.h"
#include "comm/stuck_clock.h"
#include "support/tiers.h"

namespace athanor::tests::gloo_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override { LEAVE_OUT_UNDER(thread_sanitizer, "it sees the threads of Gloo only in part"); }
};

// Runs body on a thread for each rank; what each threw.
std::vector<std::string> run_worlds(int size, const std::function<void(World&)>& body,
                                    const GroupOptions& options = patient()) {
  Meeting meeting(size);
  std::vector<std::string> texts(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      texts[static_cast<size_t>(rank)] = outcome_of([&] {
        const auto world = make_gloo_world(meeting.place(rank), options);
        body(*world);
      });
    });
  for (auto& thread : threads) thread.join();
  return texts;
}

void expect_fine(const std::vector<std::string>& texts) {
  for (const auto& text : texts) EXPECT_EQ(text, "");
}

TEST_F(Gloo, EveryCallAgainstTheSerialOne) {
  for (const int size : {1, 2, 3, 4, 5})
    expect_fine(run_worlds(size, [](World& world) { EXPECT_EQ(try_every_call(world.all()), ""); }));
}

TEST_F(Gloo, EveryCallBetweenProcesses) {
  Meeting meeting(3);
  TestRanks ranks(3, [&](int rank) {
    const auto world = make_gloo_world(meeting.place(rank), patient());
    EXPECT_EQ(try_every_call(world->all()), "");
  });
  expect_fine(ranks.outcomes());
}

TEST_F(Gloo, SmallPieces) {
  GroupOptions options = patient();
  options.slot_bytes = 4096;
  expect_fine(run_worlds(
      3,
      [](World& world) {
        const int64_t count = 200'003;  // several of the least pieces for every owner
        auto data = samples<float>(world.rank(), 0, count);
        world.all().all_reduce(data.data(), count, Dtype::f32, "x").wait();
        EXPECT_TRUE(same_bits(data, serial_sums<float>(3, 0, count)));
      },
      options));
}

TEST_F(Gloo, GroupsOfSomeRanks) {
  expect_fine(run_worlds(4, [](World& world) {
    const int me = world.rank();
    const auto pair = world.make_group(me % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}, "pair");
    const auto again = world.make_group(me % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}, "pair again");
    EXPECT_THROW(world.make_group(me % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}, "pair"), Error);
    EXPECT_EQ(pair->rank(), me / 2);
    // At the same time, in an order of their own on each rank.
    int64_t a = me, b = 10 * me, c = 100 * me;
    Work works[3];
    if (me < 2) works[0] = pair->all_reduce(&a, 1, Dtype::i64, "x");
    works[1] = again->all_reduce(&b, 1, Dtype::i64, "x");
    works[2] = world.all().all_reduce(&c, 1, Dtype::i64, "x");
    if (me >= 2) works[0] = pair->all_reduce(&a, 1, Dtype::i64, "x");
    for (auto& work : works) work.wait();
    EXPECT_EQ(a, me % 2 == 0 ? 2 : 4);
    EXPECT_EQ(b, me % 2 == 0 ? 20 : 40);
    EXPECT_EQ(c, 600);
    if (me == 3) {
      const auto alone = world.make_group({3}, "alone");
      alone->barrier("x");
      EXPECT_THROW(world.make_group({0, 1}, "others"), Error);
      EXPECT_THROW(world.make_group({3, 1}, "not ascending"), Error);
      EXPECT_THROW(world.make_group({3, 4}, "not there"), Error);
    }
  }));
}

TEST_F(Gloo, AGroupOnceMoreAndOneOfTwoLists) {
  const auto texts = run_worlds(3, [](World& world) {
    for (int i = 0; i < 3; ++i) world.make_group({0, 1, 2}, "again and again")->barrier("x");
    if (world.rank() < 2) {
      const auto tp = world.make_group(world.rank() == 0 ? std::vector{0, 1, 2} : std::vector{0, 1}, "tp");
      EXPECT_THAT(outcome_of([&] { tp->barrier("x"); }),
                  AnyOf(HasSubstr("Error: group 'tp': its members are 0, 1, but rank 0"),
                        HasSubstr("Error: group 'tp': its members are 0-2, but rank 1")));
    }
    world.all().barrier("end");
  });
  expect_fine(texts);
}

TEST_F(Gloo, WhatBreaksOneGroupLeavesTheOthers) {
  std::latch fine(3);  // an abort may overtake the last message of a barrier
  const auto texts = run_worlds(3, [&](World& world) {
    const auto pair = world.rank() < 2 ? world.make_group({0, 1}, "pair") : nullptr;
    if (pair) {
      if (world.rank() == 1) pair->abort("enough");
      EXPECT_THAT(outcome_of([&] { pair->barrier("x"); }), HasSubstr("enough"));
    }
    EXPECT_EQ(outcome_of([&] { world.all().barrier("fine"); }), "");
    fine.arrive_and_wait();
    if (world.rank() == 2) world.abort("enough of all");
    const auto later = outcome_of([&] { world.all().barrier("x"); });
    EXPECT_THAT(later, HasSubstr("enough of all"));
    EXPECT_THAT(outcome_of([&] { world.make_group({0, 1, 2}, "x"); }), HasSubstr("enough of all"));
  });
  expect_fine(texts);
}

// The bytes of docs/collectives.md, for counts that do not divide, too.
TEST_F(Gloo, TrafficIsCountedExactly) {
  expect_fine(run_worlds(3, [](World& world) {
    Group& group = world.all();
    const int me = world.rank();
    const auto bytes = [&](Collective collective) { return group.traffic().of(collective).bytes; };
    std::vector<float> in(30), out(30);
    group.all_reduce(in.data(), 9, Dtype::f32, "x").wait();
    EXPECT_EQ(bytes(Collective::all_reduce), 2 * 2 * 9 * 4 / 3);
    group.all_reduce(in.data(), 10, Dtype::f32, "x").wait();  // slices of 4, 3, 3
    EXPECT_EQ(bytes(Collective::all_reduce), 48 + (me == 0 ? 6 + 2 * 4 : 7 + 2 * 3) * 4);
    EXPECT_EQ(group.traffic().of(Collective::all_reduce).calls, 2);
    group.all_gather(in.data(), out.data(), 5, Dtype::f32, "x").wait();
    EXPECT_EQ(bytes(Collective::all_gather), 2 * 5 * 4);
    group.reduce_scatter(in.data(), out.data(), 5, Dtype::f32, "x").wait();
    EXPECT_EQ(bytes(Collective::reduce_scatter), 2 * 5 * 4);
    group.all_to_all(in.data(), out.data(), 5, Dtype::f32, "x").wait();
    EXPECT_EQ(bytes(Collective::all_to_all), 2 * 5 * 4);
    group.broadcast(in.data(), 7, Dtype::f32, 1, "x").wait();
    EXPECT_EQ(bytes(Collective::broadcast), me == 1 ? 2 * 7 * 4 : 0);
    group.reduce(in.data(), out.data(), 7, Dtype::f32, 1, "x").wait();
    EXPECT_EQ(bytes(Collective::reduce), me == 1 ? 0 : 7 * 4);
    group.gather(in.data(), out.data(), 7, Dtype::f32, 2, "x").wait();
    EXPECT_EQ(bytes(Collective::gather), me == 2 ? 0 : 7 * 4);
    group.scatter(in.data(), out.data(), 7, Dtype::f32, 2, "x").wait();
    EXPECT_EQ(bytes(Collective::scatter), me == 2 ? 2 * 7 * 4 : 0);
    Work message;
    if (me == 0) message = group.send(in.data(), 3, Dtype::f32, 1, "x");
    if (me == 1) message = group.recv(in.data(), 3, Dtype::f32, 0, "x");
    message.wait();
    EXPECT_EQ(bytes(Collective::send), me == 0 ? 3 * 4 : 0);
    std::vector<TreeNode> nodes;  // of 3 leaves, rank 0 has two
    if (me == 0) nodes = {{0, 1, in.data()}, {1, 2, in.data() + 9}};
    if (me == 1) nodes = {{2, 3, in.data()}};
    group.all_reduce_tree(nodes, 3, out.data(), 9, "x").wait();
    EXPECT_EQ(bytes(Collective::all_reduce_tree), (2 - me) * 6 * 4 + 2 * 3 * 4);
  }));
}

TEST_F(Gloo, AKilledProcessIsNamedByAll) {
  for (const int victim : {0, 1, 3}) {
    Meeting meeting(4);
    TestRanks ranks(4, [&](int rank) {
      const auto world = make_gloo_world(meeting.place(rank), patient());
      std::vector<float> data(100'000);
      for (int i = 0;; ++i) {
        if (rank == victim && i == 3) kill(getpid(), SIGKILL);
        world->all().all_reduce(data.data(), 100'000, Dtype::f32, "grads").wait();
      }
    });
    const auto outcomes = ranks.outcomes();
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_THAT(outcomes[static_cast<size_t>(rank)],
                  rank == victim ? HasSubstr("signal 9")
                                 : HasSubstr("PeerLost " + std::to_string(victim) + ": rank " +
                                             std::to_string(victim) + " was lost"));
  }
}

TEST_F(Gloo, DifferentCallsAreNamedByAll) {
  const auto texts = run_worlds(3, [](World& world) {
    std::vector<float> data(10);
    Group& group = world.all();
    group.barrier("start");
    if (group.rank() == 1) {
      group.all_gather(data.data(), data.data(), 3, Dtype::f32, "wrong").wait();
    } else {
      group.all_reduce(data.data(), 10, Dtype::f32, "grads").wait();
    }
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Error: group 'world'"), HasSubstr("collective 1"),
                            HasSubstr("rank 1 called all_gather(f32[3], \"wrong\")"),
                            HasSubstr("called all_reduce(f32[10], \"grads\")")));
}

TEST_F(Gloo, MessagesThatDoNotFitAreNamedByBoth) {
  const auto texts = run_worlds(2, [](World& world) {
    std::vector<float> data(10);
    Group& group = world.all();
    (group.rank() == 0 ? group.send(data.data(), 10, Dtype::f32, 1, "acts")
                       : group.recv(data.data(), 9, Dtype::f32, 0, "acts"))
        .wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Error: group 'world'"), HasSubstr("send(f32[10] to 1, \"acts\")"),
                            HasSubstr("recv(f32[9] from 0, \"acts\")")));
}

TEST_F(Gloo, CountsThatDoNotFitAreNamedByAll) {
  const auto texts = run_worlds(3, [](World& world) {
    std::vector<float> in(9), out(9);
    const std::vector<int64_t> to = {1, 2, 3};
    std::vector<int64_t> from(3, world.rank() + 1);
    if (world.rank() == 2) from[1] = 4;
    world.all().all_to_all_v(in.data(), to, out.data(), from, Dtype::f32, "tokens").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Error: "), HasSubstr("tokens"),
                            HasSubstr("rank 1 has 3 elements for rank 2, which expects 4")));
}

TEST_F(Gloo, AnAbortAndALeaverReachThoseWhoWait) {
  auto texts = run_worlds(3, [](World& world) {
    if (world.rank() == 2) world.all().abort("disk full");
    world.all().barrier("x");
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Recoverable: rank 2 aborted group 'world'"), HasSubstr("disk full")));
  texts = run_worlds(3, [](World& world) {
    world.all().barrier("first");
    if (world.rank() == 1) return;
    std::vector<float> data(10);
    world.all().all_reduce(data.data(), 10, Dtype::f32, "second").wait();
  });
  EXPECT_EQ(texts[1], "");
  for (const int rank : {0, 2})
    EXPECT_THAT(texts[static_cast<size_t>(rank)],
                AllOf(HasSubstr("PeerLost 1: rank 1 was lost"), HasSubstr("collective 1 all_reduce")));
}

TEST_F(Gloo, ATimeoutNamesWhoIsMissing) {
  GroupOptions options = patient();  // to join, for which the time is the machine's
  options.late_ms = 200'000;
  StuckClock clock(/*ranks=*/2, /*waiting=*/2, /*ms_a_look=*/50'000);
  options.now_ns = [&] { return clock.now_ns(); };
  std::atomic<int> reports = 0;
  options.on_late = [&](const std::string& report) {
    if (report.find("rank 1, which last called collective 0 barrier(\"x\")") != std::string::npos) ++reports;
  };
  options.before_call = [&](int rank, uint64_t sequence) {
    if (sequence == 1 && rank == 1) return Fault::hang;
    if (sequence == 1) clock.stuck();
    return Fault::none;
  };
  const auto texts = run_worlds(
      3,
      [](World& world) {
        world.all().barrier("x");
        world.all().barrier("stuck");
      },
      options);
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Timeout: group 'world', collective 1 barrier(\"stuck\")"),
                            HasSubstr("rank 1, which last called collective 0 barrier(\"x\")")));
  EXPECT_GE(reports, 1);
}

TEST_F(Gloo, WhoDoesNotJoinIsNamed) {
  Meeting meeting(3);
  GroupOptions options;
  options.timeout_ms = 2'000;
  std::vector<std::string> texts(2);
  std::thread second([&] { texts[1] = outcome_of([&] { make_gloo_world(meeting.place(1), patient()); }); });
  meeting.wait_for_one();
  texts[0] = outcome_of([&] { make_gloo_world(meeting.place(0), options); });
  second.join();
  EXPECT_THAT(texts[0], HasSubstr("Timeout: rank 2 of 3 did not join within 2 s"));
  EXPECT_THAT(texts[1], HasSubstr("rank 2 of 3 did not join"));
}

TEST_F(Gloo, WorldsThatDoNotAgreeAreRefused) {
  Meeting meeting(3);
  std::vector<std::string> texts(2);
  std::thread second([&] {
    GlooPlace place = meeting.place(1);
    place.size = 2;
    texts[1] = outcome_of([&] { make_gloo_world(place, patient()); });
  });
  texts[0] = outcome_of([&] { make_gloo_world(meeting.place(0), patient()); });
  second.join();
  for (const auto& text : texts)
    EXPECT_THAT(text, HasSubstr("Error: rank 1 says the world has 2 ranks, rank 0 says 3"));
  const int fd = listen_on("127.0.0.1", 0);
  EXPECT_THROW(make_gloo_world({.address = "127.0.0.1", .port = port_of(fd), .rank = 0, .size = 2}), IoError);
  close(fd);
  EXPECT_THROW(make_gloo_world({.address = "127.0.0.1", .port = 0, .rank = 0, .size = 2}), Error);
  EXPECT_THROW(make_gloo_world({.address = "127.0.0.1", .port = 1, .rank = 2, .size = 2}), Error);
}

GroupOptions of_generation(int generation) {
  GroupOptions options = patient();
  options.generation = generation;
  return options;
}

// A process that a failure has left behind comes to the place where the next generation meets.
TEST_F(Gloo, ARankOfAnEarlierGenerationIsRefusedAndNobodyElse) {
  Meeting meeting(2);
  std::string texts[2];
  std::thread first([&] {
    texts[0] = outcome_of([&] {
      const auto world = make_gloo_world(meeting.place(0), of_generation(2));
      EXPECT_EQ(try_every_call(world->all()), "");
    });
  });
  EXPECT_EQ(outcome_of([&] { make_gloo_world(meeting.place(1), of_generation(1)); }),
            "Error: rank 1 is of generation 1 of the world, rank 0 of generation 2");
  texts[1] = outcome_of([&] {
    const auto world = make_gloo_world(meeting.place(1), of_generation(2));
    EXPECT_EQ(try_every_call(world->all()), "");
  });
  first.join();
  EXPECT_EQ(texts[0], "");
  EXPECT_EQ(texts[1], "");
}

TEST_F(Gloo, ARankOfALaterGenerationEndsTheEarlierOne) {
  Meeting meeting(2);
  std::string texts[2];
  std::thread first(
      [&] { texts[0] = outcome_of([&] { make_gloo_world(meeting.place(0), of_generation(0)); }); });
  texts[1] = outcome_of([&] { make_gloo_world(meeting.place(1), of_generation(1)); });
  first.join();
  for (const auto& text : texts)
    EXPECT_EQ(text, "Error: rank 1 is of generation 1 of the world, rank 0 of generation 0");
}

}  // namespace
}  // namespace athanor::tests::gloo_test
