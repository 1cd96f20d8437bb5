// send and recv between threads: order, sizes around the ring, many at once, and what is said when they differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "comm/forked.h"
#include "comm/reference.h"
#include "comm/stuck_clock.h"

namespace athanor::tests::message_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

GroupOptions small_rings() {
  GroupOptions options;
  options.slot_bytes = 512;  // rings of a kilobyte
  options.timeout_ms = 600'000;
  return options;
}

// Every rank sends to every rank, itself too, before it receives; more than any ring holds.
TEST(Messages, AllSendFirst) {
  for (int n = 1; n <= 5; ++n) {
    const auto groups = make_thread_groups(n, small_rings());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      const std::vector<int64_t> counts = {0, 1, 255, 256, 257, 1000, 0, 5001, 3};
      std::vector<std::vector<float>> data;
      std::vector<Work> sends;
      for (int to = 0; to < n; ++to)
        for (int64_t count : counts) {
          data.push_back(samples<float>(me, to * 10 + count, count));
          sends.push_back(group.send(data.back().data(), count, Dtype::f32, to, "x"));
        }
      for (int from = n - 1; from >= 0; --from)
        for (int64_t count : counts) {
          std::vector<float> got(static_cast<size_t>(count));
          group.recv(got.data(), count, Dtype::f32, from, "x").wait();
          ASSERT_TRUE(same_bits(got, samples<float>(from, me * 10 + count, count)))
              << n << " ranks, " << count;
        }
      for (auto& send : sends) send.wait();
    });
  }
}

// A ring, as attention over many ranks has it: all pass on what they got, both directions posted first.
TEST(Messages, RoundTheRing) {
  for (int n : {1, 2, 3, 4, 5}) {
    const auto groups = make_thread_groups(n, small_rings());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank(), next = (me + 1) % n, previous = (me + n - 1) % n;
      auto block = samples<double>(me, 0, 700);
      std::vector<double> coming(block.size());
      for (int step = 0; step < n; ++step) {
        Work out = group.send(block.data(), 700, Dtype::f64, next, "block");
        Work in = group.recv(coming.data(), 700, Dtype::f64, previous, "block");
        in.wait();
        out.wait();
        block.swap(coming);
      }
      EXPECT_TRUE(same_bits(block, samples<double>(me, 0, 700)));
    });
  }
}

// Messages and collectives do not wait for each other: one goes through while the other is missing a rank.
TEST(Messages, PassBesideACollective) {
  const auto groups = make_thread_groups(2, small_rings());
  run_ranks(groups, [&](Group& group) {
    auto data = samples<float>(group.rank(), 0, 3000);
    std::vector<float> got(3000);
    if (group.rank() == 0) {
      Work sum = group.all_reduce(data.data(), 3000, Dtype::f32, "sum");
      group.recv(got.data(), 3000, Dtype::f32, 1, "first this").wait();
      EXPECT_TRUE(same_bits(got, samples<float>(1, 0, 3000)));
      sum.wait();
    } else {
      group.send(data.data(), 3000, Dtype::f32, 0, "first this").wait();
      group.all_reduce(data.data(), 3000, Dtype::f32, "sum").wait();
    }
    EXPECT_TRUE(same_bits(data, serial_sums<float>(2, 0, 3000)));
  });
}

// Nobody waits for the message on the sending rank: its own thread moves it.
TEST(Messages, GoOnWhileTheRankDoesSomethingElse) {
  const auto groups = make_thread_groups(2, small_rings());
  std::latch received(1);
  run_ranks(groups, [&](Group& group) {
    const auto data = samples<float>(0, 0, 20'000);
    if (group.rank() == 0) {
      Work work = group.send(data.data(), 20'000, Dtype::f32, 1, "large");
      received.wait();
      while (!work.done()) std::this_thread::yield();
      work.wait();
    } else {
      std::vector<float> got(20'000);
      group.recv(got.data(), 20'000, Dtype::f32, 0, "large").wait();
      EXPECT_TRUE(same_bits(got, data));
      received.count_down();
    }
  });
}

TEST(Messages, FromSharedMemory) {
  const auto groups = make_thread_groups(3, small_rings());
  run_ranks(groups, [&](Group& group) {
    const int64_t count = 700'001;  // several portions
    const auto memory = share_bytes(group, static_cast<size_t>(count) * sizeof(float) + 64);
    auto* data = static_cast<float*>(static_cast<void*>(memory.get())) + 16;
    for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 1013 + group.rank());
    std::vector<float> got(static_cast<size_t>(count));
    Work send = group.send(data, count, Dtype::f32, (group.rank() + 1) % 3, "x");
    const int from = (group.rank() + 2) % 3;
    group.recv(got.data(), count, Dtype::f32, from, "x").wait();
    send.wait();
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i)
      wrong += got[static_cast<size_t>(i)] != static_cast<float>(i % 1013 + from) ? 1 : 0;
    EXPECT_EQ(wrong, 0);
  });
}

TEST(Messages, WorkOutlivesItsGroup) {
  auto groups = make_thread_groups(2, small_rings());
  const auto a = samples<float>(0, 0, 5000);
  std::vector<float> b(5000);
  Work send = groups[0]->send(a.data(), 5000, Dtype::f32, 1, "x");
  Work recv = groups[1]->recv(b.data(), 5000, Dtype::f32, 0, "x");
  groups.clear();
  EXPECT_TRUE(send.done());
  send.wait();
  recv.wait();
  EXPECT_TRUE(same_bits(a, b));
}

TEST(Messages, AGroupOfOneTalksToItself) {
  const auto group = make_single_group();
  const auto data = samples<float>(0, 0, 10);
  std::vector<float> got(10);
  Work recv = group->recv(got.data(), 10, Dtype::f32, 0, "x");
  EXPECT_FALSE(recv.done());
  group->send(data.data(), 10, Dtype::f32, 0, "x").wait();
  recv.wait();
  EXPECT_TRUE(same_bits(got, data));
  EXPECT_THROW(group->recv(got.data(), 10, Dtype::f32, 0, "nothing was sent").wait(), Error);
}

TEST(MessageMismatch, AnyDifferenceIsToldToBoth) {
  std::vector<double> a(64), b(64);
  using Start = std::function<void(Group&, void*)>;
  const std::string head(300, 'n');
  const Start send = [](Group& g, void* d) { g.send(d, 8, Dtype::f32, 1, "x").wait(); };
  const std::vector<std::pair<Start, Start>> pairs = {
      {send, [](Group& g, void* d) { g.recv(d, 9, Dtype::f32, 0, "x").wait(); }},
      {send, [](Group& g, void* d) { g.recv(d, 0, Dtype::f32, 0, "x").wait(); }},
      {send, [](Group& g, void* d) { g.recv(d, 8, Dtype::i32, 0, "x").wait(); }},
      {send, [](Group& g, void* d) { g.recv(d, 8, Dtype::f32, 0, "y").wait(); }},
      {[&](Group& g, void* d) { g.send(d, 8, Dtype::f32, 1, head + "1").wait(); },
       [&](Group& g, void* d) { g.recv(d, 8, Dtype::f32, 0, head + "2").wait(); }},
  };
  for (const auto& starts : pairs) {
    const auto groups = make_thread_groups(2, small_rings());
    const auto texts = outcomes_of_ranks(groups, [&](Group& group) {
      (group.rank() == 0 ? starts.first : starts.second)(group, group.rank() == 0 ? a.data() : b.data());
    });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("Error: group 'world': message 0 from rank 0 to rank 1 differs: "
                                            "rank 0 called send("),
                                  HasSubstr("rank 1 called recv("))));
  }
}

TEST(MessageMismatch, NamesTheMessageAndBothCalls) {
  const auto groups = make_thread_groups(2, small_rings());
  const auto texts = outcomes_of_ranks(groups, [&](Group& group) {
    std::vector<float> data(9);
    if (group.rank() == 0) {
      Work first = group.send(data.data(), 8, Dtype::f32, 1, "a");
      Work second = group.send(data.data(), 8, Dtype::f32, 1, "b");
      first.wait();
      second.wait();
    } else {
      group.recv(data.data(), 8, Dtype::f32, 0, "a").wait();
      group.recv(data.data(), 9, Dtype::f32, 0, "b").wait();
    }
  });
  EXPECT_THAT(texts,
              Each("Error: group 'world': message 1 from rank 0 to rank 1 differs: rank 0 called send(f32[8] "
                   "to 1, \"b\"); rank 1 called recv(f32[9] from 0, \"b\")"));
}

TEST(MessagePeerLost, ARankThatLeavesWithoutSending) {
  auto groups = make_thread_groups(2, small_rings());
  const auto texts = outcomes_of_ranks(
      groups,
      [](Group& group) {
        std::vector<float> data(900);
        if (group.rank() == 1) {
          Work sent = group.send(data.data(), 900, Dtype::f32, 0, "the last");
          sent.wait();
          return;
        }
        group.recv(data.data(), 900, Dtype::f32, 1, "the last").wait();  // still comes
        group.recv(data.data(), 900, Dtype::f32, 1, "one more").wait();
      },
      &groups);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("PeerLost 1: rank 1 was lost: it has left the group"),
                              HasSubstr("message 1 recv(f32[900] from 1, \"one more\")")));
  EXPECT_EQ(texts[1], "");
}

TEST(MessagePeerLost, ASendToARankThatHasLeft) {
  auto groups = make_thread_groups(2, small_rings());
  const auto texts = outcomes_of_ranks(
      groups,
      [](Group& group) {
        float x = 0;
        if (group.rank() == 0) group.send(&x, 1, Dtype::f32, 1, "nobody is there").wait();
      },
      &groups);
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr("PeerLost 1: "), HasSubstr("send(f32[1] to 1, \"nobody is there\")")));
}

TEST(MessageTimeout, NamesWhoIsMissingAndWhatItWaitsFor) {
  GroupOptions options = small_rings();
  options.timeout_ms = 150;
  StuckClock clock(/*ranks=*/2, /*waiting=*/2);
  options.now_ns = [&] { return clock.now_ns(); };
  const auto groups = make_thread_groups(2, options);
  const auto texts = outcomes_of_ranks(groups, [&](Group& group) {
    float x = 0;
    group.barrier("start");
    Work send = group.send(&x, 1, Dtype::f32, 1 - group.rank(), "both wait");  // for a recv nobody has called
    clock.stuck();
    send.wait();
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("Timeout: group 'world', message 0 send(f32[1] to "),
                                HasSubstr("last called collective 0 barrier(\"start\") and finished it"),
                                HasSubstr("and waits for message 0 send(f32[1] to "))));
}

TEST(MessageAbort, ReachesThoseWhoWait) {
  const auto groups = make_thread_groups(3, small_rings());
  const auto texts = outcomes_of_ranks(groups, [](Group& group) {
    float x = 0;
    if (group.rank() == 2) return group.abort("disk full");
    group.recv(&x, 1, Dtype::f32, 2, "x").wait();
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("Recoverable: rank 2 aborted"), HasSubstr("disk full")));
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THROW(groups[2]->send(nullptr, 0, Dtype::f32, 0, "later").wait(), Recoverable);
}

TEST(MessageLate, IsReportedAndThenFine) {
  GroupOptions options = small_rings();
  options.late_ms = 30;
  std::latch reported(1);
  std::atomic<int> reports = 0;
  std::string report;
  options.on_late = [&](const std::string& text) {
    if (reports++ > 0) return;
    report = text;
    reported.count_down();
  };
  const auto groups = make_thread_groups(2, options);
  const auto texts = outcomes_of_ranks(groups, [&](Group& group) {
    float x = 0;
    if (group.rank() == 0) return group.recv(&x, 1, Dtype::f32, 1, "act").wait();
    reported.wait();
    group.send(&x, 1, Dtype::f32, 0, "act").wait();
  });
  EXPECT_THAT(texts, Each(""));
  EXPECT_THAT(report, AllOf(HasSubstr("message 0 recv(f32[1] from 1, \"act\"): rank 0 has waited"),
                            HasSubstr("for rank 1, which has called no collective yet")));
}

// Three median steps, as in Late.FollowsTheLengthOfSteps: the clock is the test's own, a step takes a second.
TEST(MessageLate, FollowsTheLengthOfSteps) {
  GroupOptions options = small_rings();
  options.timeout_ms = 1'000'000;
  std::atomic<int64_t> now_ms = 1'000, start_ms = 0, reported_ms = 0;
  options.now_ns = [&] { return (now_ms += start_ms > 0 ? 250 : 0) * 1'000'000; };
  std::latch reported(1);
  options.on_late = [&](const std::string&) {
    if (reported_ms != 0) return;
    reported_ms = now_ms.load();
    reported.count_down();
  };
  const auto groups = make_thread_groups(2, options);
  const auto texts = outcomes_of_ranks(groups, [&](Group& group) {
    float x = 0;
    for (int i = 0; i < 9; ++i) {
      if (group.rank() == 0) {
        if (i == 8) start_ms = now_ms.load();
        group.recv(&x, 1, Dtype::f32, 1, "act").wait();
        now_ms += 1'000;
      } else {
        if (i == 8) reported.wait();
        group.send(&x, 1, Dtype::f32, 0, "act").wait();
      }
    }
  });
  EXPECT_THAT(texts, Each(""));
  EXPECT_GE(reported_ms - start_ms, 3'000);
}

}  // namespace
}  // namespace athanor::tests::message_test
