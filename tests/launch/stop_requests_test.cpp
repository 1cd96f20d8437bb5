// What each signal means, by the time at which it comes.
#include "athanor/launch/stop_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace athanor::tests::stop_requests_test {
namespace {

struct Arrival {
  int number;
  int64_t ms;
  bool by_launcher;
  StopMeaning meaning;
};

TEST(StopRequests, WithinAMomentTheyAreOne) {
  using enum StopMeaning;
  const std::vector<std::vector<Arrival>> all = {
      {{SIGTERM, 0, false, first}, {SIGTERM, 0, false, same}, {SIGTERM, 200, false, same}},
      {{SIGINT, 50, false, first}, {SIGINT, 249, false, same}, {SIGINT, 251, false, again}},
      {{SIGHUP, 7, false, first},
       {SIGTERM, 8, false, same},
       {SIGTERM, 300, false, again}},  // a closed session
      {{SIGUSR1, 0, false, first}, {SIGTERM, 60'000, false, again}},
      // A key that is held down does not put off the second request for ever.
      {{SIGINT, 0, false, first}, {SIGINT, 150, false, same}, {SIGINT, 300, false, again}},
      // The kernel repeats it every second until the hard limit.
      {{SIGXCPU, 0, false, first}, {SIGXCPU, 1000, false, same}, {SIGXCPU, 2000, false, same}},
      {{SIGXCPU, 0, false, first}, {SIGXCPU, 900, false, same}, {SIGINT, 1000, false, again}},
      // A scheduler signals every process, and the launcher passes on what it got, however late.
      {{SIGTERM, 0, false, first}, {SIGTERM, 900, true, same}, {SIGTERM, 1000, false, again}},
      {{SIGTERM, 0, true, first}, {SIGTERM, 100, false, same}}};
  for (const auto& arrivals : all) {
    StopRequests requests;
    EXPECT_EQ(requests.first(), 0);
    for (const Arrival& a : arrivals)
      EXPECT_EQ(requests.take(a.number, 1'000'000'000 + a.ms * 1'000'000, a.by_launcher), a.meaning)
          << signal_name(a.number) << " at " << a.ms;
    EXPECT_EQ(requests.first(), arrivals.front().number);
  }
}

TEST(StopRequests, WhatIsIgnoredIsNoneOfThem) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const auto found = [&] {
      const std::vector<int> all = stop_signals();
      return std::find(all.begin(), all.end(), number) != all.end();
    };
    const auto before = std::signal(number, SIG_DFL);
    EXPECT_TRUE(found()) << signal_name(number);
    std::signal(number, SIG_IGN);
    EXPECT_FALSE(found()) << signal_name(number);
    std::signal(number, before);
  }
}

TEST(StopRequests, Names) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGXCPU), "SIGXCPU");
}

}  // namespace
}  // namespace athanor::tests::stop_requests_test
