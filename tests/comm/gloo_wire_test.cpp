// What one message of a wire means for the others between the same two ranks.
#include "athanor/comm/network/gloo/gloo_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "athanor/comm/network/network_group.h"
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

// Two generations of a group on one wire: neither calls nor messages of one reach the other.
TEST(GlooWire, CallsAndMessagesOfAnotherGenerationAreRefused) {
  for (const bool message : {false, true}) {
    Meeting meeting(2);
    std::string texts[2];
    std::vector<std::thread> threads;
    for (const int rank : {0, 1})
      threads.emplace_back([&, rank, place = meeting.place(rank)] {
        GroupOptions options = patient();
        options.name = "tp";
        options.generation = rank + 1;
        float x = static_cast<float>(rank);
        texts[rank] = outcome_of([&] {
          WireGroup group(open_gloo_wire(place, patient()), {0, 1}, WireGroupIds{7, 7}, options);
          if (!message)
            group.barrier("x");
          else if (rank == 0)
            group.send(&x, 1, Dtype::f32, 1, "x").wait();
          else
            group.recv(&x, 1, Dtype::f32, 0, "x").wait();
          if (rank == 0) group.barrier("after");  // a send does not wait for its receiver
        });
        EXPECT_EQ(x, static_cast<float>(rank));
      });
    for (auto& thread : threads) thread.join();
    for (const auto& text : texts)
      EXPECT_THAT(
          text, testing::AllOf(testing::HasSubstr("Error: group 'tp': rank "),
                               testing::HasSubstr("of generation 1"), testing::HasSubstr("of generation 2")));
  }
}

}  // namespace
}  // namespace athanor::tests::gloo_wire_test
