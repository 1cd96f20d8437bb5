// Law 8: whatever goes wrong is named, by every rank, soon. Nothing here waits for a clock that is not its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "comm/forked.h"
#include "comm/stuck_clock.h"

namespace athanor::tests::failure_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> outcomes_in(std::vector<std::unique_ptr<Group>>& groups,
                                     const std::function<void(Group&)>& body, bool destroy_at_end = false) {
  return outcomes_of_ranks(groups, body, destroy_at_end ? &groups : nullptr);
}

TEST(Mismatch, NamesEveryRankAndBreaksTheGroup) {
  auto groups = make_thread_groups(3, patient());
  const auto texts = outcomes_in(groups, [](Group& group) {
    std::vector<float> data(10);
    group.barrier("start");
    if (group.rank() == 1) {
      group.all_gather(data.data(), data.data(), 3, Dtype::f32, "wrong").wait();
    } else {
      group.all_reduce(data.data(), 10, Dtype::f32, "grads").wait();
    }
    group.barrier("never");
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Error: group 'world'"), HasSubstr("collective 1"),
                            HasSubstr("rank 1 called all_gather(f32[3], \"wrong\")"),
                            HasSubstr("called all_reduce(f32[10], \"grads\")")));
  const auto later = outcomes_in(groups, [](Group& group) { group.barrier("later"); });
  for (const auto& text : later) EXPECT_THAT(text, HasSubstr("collective 1"));
}

std::function<void(Group&)> all_to_all_of(const std::vector<int64_t>& sends,
                                          const std::vector<int64_t>& recvs, Dtype dtype) {
  return [=](Group& group) {
    std::vector<double> in(16), out(16);
    group.all_to_all_v(in.data(), sends, out.data(), recvs, dtype, "tokens").wait();
  };
}

TEST(Mismatch, CountsOfAllToAllVAreNamed) {
  auto groups = make_thread_groups(3, patient());
  const auto texts = outcomes_in(groups, [](Group& group) {
    const int me = group.rank();
    // Rank 2 expects 4 of rank 1, which has 3; rank 0 takes no part in that.
    const std::vector<int64_t> recvs =
        me == 2 ? std::vector<int64_t>{3, 4, 3} : std::vector<int64_t>{3, 3, 3};
    all_to_all_of({3, 3, 3}, recvs, Dtype::f32)(group);
  });
  for (const auto& text : texts)
    EXPECT_EQ(text,
              "Error: group 'world', collective 0 all_to_all_v(f32 rows, \"tokens\"): rank 1 has 3 elements "
              "for rank 2, "
              "which expects 4");
}

// A rank that leaves one collective out is named by its next, whichever that is.
TEST(Mismatch, AMissingCollective) {
  auto groups = make_thread_groups(3, patient());
  const auto texts = outcomes_in(groups, [](Group& group) {
    std::vector<float> data(6);
    if (group.rank() != 1) group.reduce(data.data(), data.data(), 6, Dtype::f32, 0, "grads").wait();
    group.gather(data.data(), data.data() + 2 * group.rank(), 2, Dtype::f32, 2, "loss").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text,
                AllOf(HasSubstr("collective 0"), HasSubstr("rank 1 called gather(f32[2] to 2, \"loss\")"),
                      HasSubstr("called reduce(f32[6] to 0, \"grads\")")));
}

// Each field of a call counts.
TEST(Mismatch, AnyDifference) {
  std::vector<double> a(64), b(64);
  using Start = std::function<void(Group&, void*)>;
  const std::string head(300, 'n');
  const std::vector<std::pair<Start, Start>> pairs = {
      {[](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, "x").wait(); },
       [](Group& g, void* d) { g.all_reduce(d, 9, Dtype::f32, "x").wait(); }},
      {[](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, "x").wait(); },
       [](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f64, "x").wait(); }},
      {[](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, "x").wait(); },
       [](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, "y").wait(); }},
      {[](Group& g, void* d) { g.broadcast(d, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.broadcast(d, 8, Dtype::f32, 1, "x").wait(); }},
      {[](Group& g, void* d) { g.all_to_all(d, static_cast<float*>(d) + 16, 8, Dtype::f32, "x").wait(); },
       [](Group& g, void* d) { g.all_to_all(d, static_cast<float*>(d) + 16, 7, Dtype::f32, "x").wait(); }},
      {[](Group& g, void* d) { g.all_to_all(d, static_cast<float*>(d) + 16, 8, Dtype::f32, "x").wait(); },
       [](Group& g, void* d) { g.all_gather(d, static_cast<float*>(d) + 16, 8, Dtype::f32, "x").wait(); }},
      {[](Group& g, void* d) { g.reduce(d, d, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.reduce(d, d, 8, Dtype::f32, 1, "x").wait(); }},
      {[](Group& g, void* d) { g.reduce(d, d, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.reduce(d, d, 7, Dtype::f32, 0, "x").wait(); }},
      {[](Group& g, void* d) { g.gather(d, static_cast<float*>(d) + 16, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.gather(d, static_cast<float*>(d) + 16, 8, Dtype::f32, 0, "y").wait(); }},
      {[](Group& g, void* d) { g.gather(d, static_cast<float*>(d) + 16, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.scatter(d, static_cast<float*>(d) + 16, 8, Dtype::f32, 0, "x").wait(); }},
      {[](Group& g, void* d) { g.scatter(d, static_cast<float*>(d) + 16, 8, Dtype::f32, 0, "x").wait(); },
       [](Group& g, void* d) { g.scatter(d, static_cast<float*>(d) + 16, 8, Dtype::i32, 0, "x").wait(); }},
      {[](Group& g, void*) {
         all_to_all_of({0, 0}, {0, 0}, Dtype::f32)(g);
       },
       [](Group& g, void*) {
         all_to_all_of({0, 0}, {0, 0}, Dtype::f64)(g);
       }},
      {[](Group& g, void*) {
         all_to_all_of({1, 3}, {1, 4}, Dtype::f32)(g);
       },
       [](Group& g, void*) {
         all_to_all_of({5, 2}, {3, 2}, Dtype::f32)(g);
       }},
      {[](Group& g, void*) { g.share(nullptr, 4096, "x"); },
       [](Group& g, void*) { g.share(nullptr, 8192, "x"); }},
      {[](Group& g, void* d) { g.all_reduce(d, 0, Dtype::f32, "x").wait(); },
       [](Group& g, void*) { g.barrier("x"); }},
      {[&](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, head + "1").wait(); },
       [&](Group& g, void* d) { g.all_reduce(d, 8, Dtype::f32, head + "2").wait(); }},
      {[](Group& g, void* d) {
         g.all_reduce_tree({{0, 1, static_cast<float*>(d)}}, 2, static_cast<float*>(d), 8, "x").wait();
       },
       [](Group& g, void* d) {
         g.all_reduce_tree({{1, 2, static_cast<float*>(d)}}, 3, static_cast<float*>(d), 8, "x").wait();
       }},
  };
  for (const auto& starts : pairs) {
    auto groups = make_thread_groups(2, patient());
    const auto texts = outcomes_in(groups, [&](Group& group) {
      (group.rank() == 0 ? starts.first : starts.second)(group, group.rank() == 0 ? a.data() : b.data());
    });
    for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("Error: group 'world'"));
  }
}

TEST(Mismatch, TreeNodesMustCoverTheLeaves) {
  auto groups = make_thread_groups(2, patient());
  const auto texts = outcomes_in(groups, [](Group& group) {
    std::vector<float> data(4);
    group.all_reduce_tree({{0, 1, data.data()}}, 2, data.data(), 4, "both bring leaf 0").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Error: "), HasSubstr("both bring leaf 0"), HasSubstr("leaf 1")));
}

TEST(Abort, ReachesThoseWhoWaitAndLaterCalls) {
  auto groups = make_thread_groups(3, patient());
  const auto texts = outcomes_in(groups, [](Group& group) {
    if (group.rank() == 2) group.abort("disk full");
    group.barrier("x");
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("Recoverable: rank 2 aborted group 'world'"), HasSubstr("disk full")));
  groups[0]->abort("later reasons do not replace the first");
  EXPECT_THAT(outcomes_in(groups, [](Group& g) { g.barrier("y"); })[1], HasSubstr("disk full"));
}

TEST(Abort, SingleGroup) {
  const auto group = make_single_group();
  group->barrier("x");
  group->abort("enough");
  EXPECT_THROW(group->barrier("x"), Recoverable);
}

TEST(PeerLost, ARankThatLeaves) {
  auto groups = make_thread_groups(3, patient());
  const auto texts = outcomes_in(
      groups,
      [](Group& group) {
        group.barrier("first");
        if (group.rank() != 1) group.barrier("second");
      },
      true);
  for (int r : {0, 2})
    EXPECT_THAT(
        texts[static_cast<size_t>(r)],
        AllOf(HasSubstr("PeerLost 1: rank 1 was lost: it has left the group"),
              HasSubstr("collective 1 barrier(\"second\")"), HasSubstr("collective 0 barrier(\"first\")")));
  EXPECT_EQ(texts[1], "");
}

// The root of a broadcast may be gone before the others have read the last pieces.
TEST(PeerLost, LeavingAfterDoingOnesPartIsFine) {
  for (int round = 0; round < 20; ++round) {
    auto groups = make_thread_groups(3, patient());
    const auto texts = outcomes_in(
        groups,
        [](Group& group) {
          std::vector<int32_t> data(1000, group.rank() == 0 ? 7 : 0);
          group.broadcast(data.data(), 1000, Dtype::i32, 0, "last").wait();
          EXPECT_EQ(data[999], 7);
        },
        true);
    for (const auto& text : texts) EXPECT_EQ(text, "");
  }
}

TEST(PeerLost, AKilledRankIsNamedByAll) {
  auto options = patient();
  options.before_call = [](int rank, uint64_t sequence) {
    return rank == 2 && sequence == 3 ? Fault::die : Fault::none;
  };
  auto groups = make_thread_groups(4, options);
  std::atomic<int> done = 0;
  const auto texts = outcomes_in(groups, [&](Group& group) {
    for (int i = 0; i < 5; ++i) {
      group.barrier("b" + std::to_string(i));
      ++done;
    }
  });
  EXPECT_EQ(done, 12);
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("PeerLost 2: "), HasSubstr("collective 3")));
}

TEST(Timeout, NamesWhoIsMissingAndWhatItLastDid) {
  GroupOptions options;
  options.timeout_ms = 150;
  StuckClock clock(/*ranks=*/2, /*waiting=*/2);
  options.now_ns = [&] { return clock.now_ns(); };
  options.before_call = [&](int rank, uint64_t sequence) {
    if (sequence == 1 && rank == 1) return Fault::hang;
    if (sequence == 1) clock.stuck();
    return Fault::none;
  };
  auto groups = make_thread_groups(3, options);
  const auto texts = outcomes_in(groups, [](Group& group) {
    std::vector<float> data(8);
    group.all_reduce(data.data(), 8, Dtype::f32, "loss").wait();
    group.barrier("stuck");
  });
  for (const auto& text : texts)
    EXPECT_THAT(text,
                AllOf(HasSubstr("Timeout: group 'world', collective 1 barrier(\"stuck\")"),
                      HasSubstr("rank 1, which last called collective 0 all_reduce(f32[8], \"loss\")")));
}

TEST(Late, IsReportedAndThenFine) {
  GroupOptions options = patient();
  options.late_ms = 30;
  std::latch reported(1);
  std::mutex mutex;
  std::vector<std::string> reports;
  options.on_late = [&](const std::string& report) {
    const std::lock_guard lock(mutex);
    reports.push_back(report);
    if (reports.size() == 1) reported.count_down();
  };
  auto groups = make_thread_groups(2, options);
  const auto texts = outcomes_in(groups, [&](Group& group) {
    if (group.rank() == 1) reported.wait();
    group.barrier("x");
  });
  for (const auto& text : texts) EXPECT_EQ(text, "");
  ASSERT_FALSE(reports.empty());
  EXPECT_THAT(reports[0], AllOf(HasSubstr("collective 0 barrier(\"x\")"), HasSubstr("rank 0 has waited"),
                                HasSubstr("rank 1, which has called no collective yet")));
}

// Three median steps: ranks that are used to slow steps are not reported at late_ms. The clock is the test's
// own: a step takes a second, and every look at it in the last step 250 ms.
TEST(Late, FollowsTheLengthOfSteps) {
  GroupOptions options = patient();
  options.timeout_ms = 1'000'000;
  std::atomic<int64_t> now_ms = 1'000, start_ms = 0, reported_ms = 0;
  options.now_ns = [&] { return (now_ms += start_ms > 0 ? 250 : 0) * 1'000'000; };
  options.before_call = [&](int rank, uint64_t sequence) {
    if (rank != 0) return Fault::none;
    now_ms += 1'000;
    if (sequence == 8) start_ms = now_ms.load();
    return Fault::none;
  };
  std::latch reported(1);
  options.on_late = [&](const std::string&) {
    if (reported_ms == 0) {
      reported_ms = now_ms.load();
      reported.count_down();
    }
  };
  auto groups = make_thread_groups(2, options);
  const auto texts = outcomes_in(groups, [&](Group& group) {
    for (int i = 0; i < 8; ++i) group.barrier("step");
    if (group.rank() == 1) reported.wait();
    group.barrier("step");
  });
  for (const auto& text : texts) EXPECT_EQ(text, "");
  EXPECT_GE(reported_ms - start_ms, 3'000);
}

TEST(RunRanks, RethrowsTheFirstFailure) {
  const auto groups = make_thread_groups(3, patient());
  try {
    run_ranks(groups, [](Group& group) {
      if (group.rank() == 1) throw Error("the cause");
      group.barrier("others wait here");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the cause");
  }
}

}  // namespace
}  // namespace athanor::tests::failure_test
