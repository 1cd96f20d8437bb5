// What one message of a wire means for the others between the same two ranks.
#include "athanor/comm/network/gloo/gloo_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "comm/forked.h"
#include "comm/meeting.h"

namespace athanor::tests::gloo_wire_test {
namespace {

constexpr uint64_t kGivenUp = 1, kGo = 2, kLater = 3;
constexpr auto kOld = std::byte{1}, kNew = std::byte{2};

void between_two(const std::function<void(Wire&)>& zero, const std::function<void(Wire&)>& one) {
  Meeting meeting(2);
  std::string texts[2];
  std::vector<std::thread> threads;
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank, place = meeting.place(rank)] {
      texts[rank] = outcome_of([&] { (rank == 0 ? zero : one)(*open_gloo_wire(place, patient())); });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(texts[0], "");
  EXPECT_EQ(texts[1], "");
}

bool arrives(Wire::Message& message) {
  for (int slices = 0; slices < 200; ++slices)
    if (message.wait()) return true;
  return false;
}

void say(Wire& wire, int to, uint64_t channel) {
  char word = 'x';
  EXPECT_TRUE(arrives(*wire.send(to, channel, &word, 1)))
      << "rank " << wire.rank() << ", channel " << channel;
}

void hear(Wire& wire, int from, uint64_t channel) {
  char word = 0;
  EXPECT_TRUE(arrives(*wire.recv(from, channel, &word, 1)))
      << "rank " << wire.rank() << ", channel " << channel;
  EXPECT_EQ(word, 'x');
}

bool all_are(const std::vector<std::byte>& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == value; });
}

class GivenUp : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(GlooWire, GivenUp, testing::Values(1, 4'000, 40'000'000),
                         testing::PrintToStringParamName());

// It comes all the same, and changes nothing any more.
TEST_P(GivenUp, ByTheReceiverBeforeItIsSent) {
  between_two(
      [](Wire& wire) {
        std::vector<std::byte> mine(GetParam(), kOld);
        wire.recv(1, kGivenUp, mine.data(), mine.size());
        say(wire, 1, kGo);
        hear(wire, 1, kLater);
        say(wire, 1, kLater);
        EXPECT_TRUE(all_are(mine, kOld));
      },
      [](Wire& wire) {
        const std::vector<std::byte> theirs(GetParam(), kNew);
        hear(wire, 0, kGo);
        const auto message = wire.send(0, kGivenUp, theirs.data(), theirs.size());
        say(wire, 0, kLater);
        hear(wire, 0, kLater);
        EXPECT_TRUE(arrives(*message));
      });
}

// What was asked to be sent is what comes.
TEST_P(GivenUp, ByTheSenderBeforeItIsReceived) {
  between_two(
      [](Wire& wire) {
        std::vector<std::byte> mine(GetParam(), kNew);
        wire.send(1, kGivenUp, mine.data(), mine.size());
        std::fill(mine.begin(), mine.end(), kOld);
        say(wire, 1, kGo);
        say(wire, 1, kLater);
        hear(wire, 1, kLater);
      },
      [](Wire& wire) {
        std::vector<std::byte> theirs(GetParam(), kOld);
        hear(wire, 0, kGo);
        const auto message = wire.recv(0, kGivenUp, theirs.data(), theirs.size());
        hear(wire, 0, kLater);
        say(wire, 0, kLater);
        EXPECT_TRUE(arrives(*message));
        EXPECT_TRUE(all_are(theirs, kNew));
      });
}

TEST_P(GivenUp, ByBothWhileItIsUnderWay) {
  between_two(
      [](Wire& wire) {
        for (int i = 0; i < 10; ++i) {
          std::vector<std::byte> mine(GetParam(), kOld);
          auto message = wire.recv(1, kGivenUp, mine.data(), mine.size());
          say(wire, 1, kGo);
          message.reset();
          const bool came = all_are(mine, kNew);
          EXPECT_TRUE(came || mine.back() == kOld);
          mine.assign(mine.size(), kOld);
          hear(wire, 1, kLater);
          say(wire, 1, kLater);
          EXPECT_TRUE(all_are(mine, kOld));
        }
      },
      [](Wire& wire) {
        for (int i = 0; i < 10; ++i) {
          std::vector<std::byte> theirs(GetParam(), kNew);
          hear(wire, 0, kGo);
          wire.send(0, kGivenUp, theirs.data(), theirs.size());
          say(wire, 0, kLater);
          hear(wire, 0, kLater);
        }
      });
}

}  // namespace
}  // namespace athanor::tests::gloo_wire_test
