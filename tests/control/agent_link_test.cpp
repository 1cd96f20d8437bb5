// The worker's side against an agent that the test plays.
#include "athanor/control/agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/control/listener.h"
#include "support/temporary_folder.h"

namespace athanor::tests::agent_link_test {
namespace {

using ::testing::HasSubstr;

const std::string kJob(kJobDigits, 'a');

void wait_for(int fd) {
  pollfd polled{fd, POLLIN, 0};
  poll(&polled, 1, -1);
}

// The agent's side; receives until a message comes.
struct TestAgent {
  TestAgent() { listener.emplace(ListenerOptions{.runtime_folder = folder.path("")}); }

  PacketChannel accept() {
    wait_for(listener->fd());
    auto channel = listener->accept();
    return std::move(channel.value());
  }
  static WorkerMessage receive(PacketChannel& channel) {
    while (true) {
      if (auto packet = channel.receive()) return decode_worker_message(packet->text);
      if (channel.closed()) throw Error("closed");
      wait_for(channel.fd());
    }
  }
  static void meet(PacketChannel& channel, const Meet& meet) {
    std::vector<Descriptor> made;
    std::vector<int> descriptors;
    for (size_t i = 0; i < 3 + meet.left.size(); ++i) {
      made.emplace_back(memfd_create("test", 0));
      descriptors.push_back(made.back().get());
      ASSERT_EQ(
          ftruncate(descriptors.back(), static_cast<off_t>(100 * meet.generation + static_cast<int>(i))), 0);
    }
    channel.send(encode(meet), descriptors);
  }

  TemporaryFolder folder;
  std::optional<Listener> listener;
};

off_t size_of_file(const Descriptor& descriptor) {
  return lseek(descriptor.get(), 0, SEEK_END);
}

TEST(AgentLink, MeetsWithWhatItIsGiven) {
  TestAgent agent;
  std::promise<int> stopped[2];
  int stops = 0;
  AgentLink link({.path = agent.listener->path(), .job = kJob, .worker = 3, .on_stop = [&](int signal) {
                    stopped[stops++].set_value(signal);
                  }});
  PacketChannel channel = agent.accept();
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(Hello{.job = kJob, .worker = 3, .pid = getpid()}));
  auto first = std::async(std::launch::async, [&] { return link.next(-1, "the start"); });
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(Ready{.generation = -1, .why = "the start"}));
  TestAgent::meet(channel, {.generation = 0, .rank = 1, .size = 2, .why = "all are here", .left = {}});
  auto offer = first.get();
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->rank, 1);
  EXPECT_EQ(offer->size, 2);
  EXPECT_EQ(offer->why, "all are here");
  EXPECT_EQ(size_of_file(offer->segment), 0);
  EXPECT_EQ(size_of_file(offer->slots), 1);

  const Begun begun{.generation = 0, .step = 0, .run_folder = "runs/x"};
  link.begun(begun);
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(begun));
  const Progress progress{.generation = 0, .step = 4, .kind = ProgressKind::step, .count = 4};
  link.progress(progress);
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(progress));
  channel.send(encode(Stop{.signal = SIGUSR1}));
  EXPECT_EQ(stopped[0].get_future().get(), SIGUSR1);

  // Only a newer generation will do.
  auto second = std::async(std::launch::async, [&] { return link.next(1, "rank 0 was lost"); });
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(Ready{.generation = 1, .why = "rank 0 was lost"}));
  TestAgent::meet(channel, {.generation = 1, .rank = 0, .size = 3, .why = "", .left = {}});
  channel.send(encode(Stop{.signal = SIGUSR2}));
  EXPECT_EQ(stopped[1].get_future().get(), SIGUSR2);  // and so it has taken what came before
  TestAgent::meet(channel, {.generation = 2, .rank = 2, .size = 3, .why = "again", .left = {2, 5}});
  offer = second.get();
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->generation, 2);
  ASSERT_EQ(offer->left.size(), 2u);
  EXPECT_EQ(offer->left[0].rank, 2);
  EXPECT_EQ(size_of_file(offer->left[0].slots), 203);
  EXPECT_EQ(offer->left[1].rank, 5);
  EXPECT_EQ(size_of_file(offer->left[1].slots), 204);

  auto third = std::async(std::launch::async, [&] { return link.next(2, "the loss"); });
  EXPECT_EQ(TestAgent::receive(channel), WorkerMessage(Ready{.generation = 2, .why = "the loss"}));
  channel.send(encode(End{.why = "rank 1 used up its restarts"}));
  EXPECT_FALSE(third.get());
  EXPECT_EQ(link.ended_because(), "rank 1 used up its restarts");
  EXPECT_FALSE(link.next(2, "again"));
}

// In next(), by its thread, once for each round however many agents ask; with a world nothing is measured any more.
TEST(AgentLink, MeasuresWhatTheAgentAsksFor) {
  TestAgent agent;
  std::atomic<std::thread::id> thread;
  std::atomic<int> times{0};
  AgentLink link({.path = agent.listener->path(), .job = kJob, .worker = 3, .warm_up = [&] {
                    thread = std::this_thread::get_id();
                    return WarmedUp{.matrix_gflop_per_s = 1.0 * ++times};
                  }});
  std::optional<PacketChannel> channel = agent.accept();
  std::thread::id waits;
  auto first = std::async(std::launch::async, [&] {
    waits = std::this_thread::get_id();
    return link.next(-1, "the start");
  });
  TestAgent::receive(*channel);  // Hello
  TestAgent::receive(*channel);  // Ready
  channel->send(encode(AgentMessage(WarmUp{.round = 0})));
  EXPECT_EQ(TestAgent::receive(*channel), WorkerMessage(WarmedUp{.round = 0, .matrix_gflop_per_s = 1}));
  channel->send(encode(AgentMessage(WarmUp{.round = 0})));
  channel->send(encode(AgentMessage(WarmUp{.round = 1})));
  EXPECT_EQ(TestAgent::receive(*channel), WorkerMessage(WarmedUp{.round = 1, .matrix_gflop_per_s = 2}));
  channel.reset();
  channel.emplace(agent.accept());  // another agent, which has the first answer only
  TestAgent::receive(*channel);     // Hello
  channel->send(encode(AgentMessage(Welcome{.taken = 2})));
  channel->send(encode(AgentMessage(WarmUp{.round = 1})));
  EXPECT_EQ(TestAgent::receive(*channel), WorkerMessage(WarmedUp{.round = 1, .matrix_gflop_per_s = 2}));
  TestAgent::meet(*channel, {.generation = 0, .rank = 1, .size = 2, .why = "", .left = {}});
  EXPECT_TRUE(first.get());
  EXPECT_EQ(thread.load(), waits);
  auto second = std::async(std::launch::async, [&] { return link.next(0, "rank 0 was lost"); });
  EXPECT_EQ(TestAgent::receive(*channel), WorkerMessage(Ready{.generation = 0, .why = "rank 0 was lost"}));
  TestAgent::meet(*channel, {.generation = 1, .rank = 1, .size = 2, .why = "", .left = {}});
  EXPECT_TRUE(second.get());
  EXPECT_EQ(times, 2);
}

TEST(AgentLink, ALostAgentIsToldOnceAndEndsTheWaiting) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "the launcher's agent is gone"},
      {"garbage", "no JSON object"},
      {encode(AgentMessage(Meet{.left = {4}})), "came with 0 descriptors, expected 4"},
  };
  for (const auto& [sent, expected] : cases) {
    TestAgent agent;
    std::atomic<int> times{0};
    std::promise<std::string> told;
    AgentLink link({.path = agent.listener->path(), .job = kJob, .on_lost = [&](const std::string& why) {
                      if (times++ == 0) told.set_value(why);
                    }});
    std::optional<PacketChannel> channel = agent.accept();
    auto waiting = std::async(std::launch::async, [&] { return link.next(-1, ""); });
    TestAgent::receive(*channel);  // Hello
    TestAgent::receive(*channel);  // Ready
    if (!sent.empty()) channel->send(sent);
    if (sent.empty()) {  // and nobody else has its socket
      agent.listener.reset();
      channel.reset();
    }
    EXPECT_THAT(told.get_future().get(), HasSubstr(expected));
    EXPECT_FALSE(waiting.get());
    EXPECT_THAT(link.ended_because(), HasSubstr(expected));
    link.begun({});  // to nobody
    link.farewell({});
    EXPECT_EQ(times, 1);
  }
  EXPECT_THROW(AgentLink({.path = "/no/such/socket", .job = kJob}), IoError);
}

// A connection that stands while the agent is stopped: what it gave as its pulse does not beat.
TEST(AgentLink, AnAgentWithoutAPulseIsLost) {
  TestAgent agent;
  std::promise<std::string> told;
  AgentLink link({.path = agent.listener->path(),
                  .job = kJob,
                  .on_lost = [&](const std::string& why) { told.set_value(why); },
                  .silence_ms = 1});
  PacketChannel channel = agent.accept();
  auto waiting = std::async(std::launch::async, [&] { return link.next(-1, ""); });
  TestAgent::meet(channel, {.generation = 0, .rank = 0, .size = 1, .why = "", .left = {}});
  EXPECT_TRUE(waiting.get());
  EXPECT_THAT(told.get_future().get(), HasSubstr("the launcher's agent has been silent for"));
  EXPECT_FALSE(link.next(0, ""));
}

// Each of them knows what the others have taken; what was said between two of them is not lost, and is said once.
TEST(AgentLink, AnotherAgentIsToldWhatTheOneBeforeHasNotTaken) {
  TestAgent agent;
  AgentLink link({.path = agent.listener->path(), .job = kJob, .worker = 3});
  const auto numbered = [](PacketChannel& channel) {
    while (true) {
      if (auto packet = channel.receive()) return decode_numbered_message(packet->text);
      if (channel.closed()) throw Error("closed");
      wait_for(channel.fd());
    }
  };
  int64_t said = 0;
  {
    PacketChannel first = agent.accept();
    EXPECT_EQ(numbered(first).number, 0);  // Hello
    for (; said < 4; ++said) link.saved({.generation = 0, .step = said + 1, .path = "x"});
    for (int64_t step = 1; step <= 2; ++step) {
      const NumberedMessage one = numbered(first);
      EXPECT_EQ(one.number, step);
      EXPECT_EQ(std::get<Saved>(one.message).step, step);
    }
  }
  for (int time = 0; time < 8; ++time) {  // more often than an agent may leave without a word
    PacketChannel next = agent.accept();
    EXPECT_EQ(numbered(next).message, WorkerMessage(Hello{.job = kJob, .worker = 3, .pid = getpid()}));
    link.saved({.generation = 0, .step = ++said, .path = "x"});
    next.send(encode(AgentMessage(Welcome{.taken = 2})));
    for (int64_t step = 3; step <= said; ++step) {
      const NumberedMessage one = numbered(next);
      EXPECT_EQ(one.number, step);
      EXPECT_EQ(std::get<Saved>(one.message).step, step);
    }
  }
}

TEST(AgentLink, WhoNeverWelcomesIsLost) {
  TestAgent agent;
  std::promise<std::string> told;
  AgentLink link({.path = agent.listener->path(), .job = kJob, .on_lost = [&](const std::string& why) {
                    told.set_value(why);
                  }});
  auto lost = told.get_future();
  while (lost.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    pollfd polled{agent.listener->fd(), POLLIN, 0};
    if (poll(&polled, 1, 10) > 0) agent.listener->accept();
  }
  EXPECT_EQ(lost.get(), "the launcher's agent is gone");
}

// The agent is busy: progress is shed, but the last words go out before the worker ends.
TEST(AgentLink, LastWordsWaitForABusyAgent) {
  TestAgent agent;
  auto link = std::make_unique<AgentLink>(AgentLinkOptions{.path = agent.listener->path(), .job = kJob});
  PacketChannel channel = agent.accept();
  while (link->num_shed() == 0) link->progress({.count = 1});
  link->farewell({.status = Status::failed, .cause = Cause::io, .what = "the disk is full"});
  std::thread leaving([&] { link.reset(); });
  WorkerMessage last = TestAgent::receive(channel);
  while (!std::holds_alternative<Farewell>(last)) last = TestAgent::receive(channel);
  EXPECT_EQ(std::get<Farewell>(last).what, "the disk is full");
  leaving.join();
  EXPECT_THROW(TestAgent::receive(channel), Error);
}

TEST(AgentLink, ItsThreadIsSaidWhereItRuns) {
  TestAgent agent;
  std::promise<std::thread::id> thread;
  const AgentLink link({.path = agent.listener->path(), .job = kJob, .on_thread = [&] {
                          thread.set_value(std::this_thread::get_id());
                        }});
  EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
}

// Signals are for the threads of a worker that wait for them.
TEST(AgentLink, ItsThreadBlocksAllSignals) {
  const auto threads_that_block = [] {
    int count = 0;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(thread.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigBlk:"))
          count += (std::stoull(line.substr(8), nullptr, 16) >> (SIGTERM - 1)) & 1U ? 1 : 0;
    }
    return count;
  };
  TestAgent agent;
  const int before = threads_that_block();
  const AgentLink link({.path = agent.listener->path(), .job = kJob});
  EXPECT_EQ(threads_that_block(), before + 1);
}

}  // namespace
}  // namespace athanor::tests::agent_link_test
