// A master in a process of its own that is killed, or stopped, at any time decides as one that lives.
#include "athanor/launch/master/master_front.h"
#include "support/kill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/launch/master/journal.h"
#include "job_life.h"
#include "support/places.h"
#include "support/temporary_folder.h"

namespace athanor::tests::master_front_test {
namespace {

using ::testing::HasSubstr;

using Decisions = std::vector<std::string>;

class Front {
 public:
  explicit Front(int patience_ms = 600'000)
      : master({.master = life_options(),
                .command = {built("tests/launch_worker"), "master"},
                .folder = folder.path(""),
                .patience_ms = patience_ms,
                .on_replaced = [this](const std::string& why) { replaced.push_back(why); }}) {}

  // As decisions() of a Master.
  Decisions tell(const MasterInput& input) {
    const int64_t now = input.now_ns;
    std::string why_not;
    if (std::holds_alternative<Started>(input.what)) master.start(now);
    if (const auto* one = std::get_if<WorkerSaid>(&input.what)) master.said(one->worker, one->message, now);
    if (const auto* one = std::get_if<WorkerExited>(&input.what)) master.exited(one->worker, one->end, now);
    if (const auto* one = std::get_if<StopAsked>(&input.what)) master.stop(one->signal, one->again, now);
    if (const auto* one = std::get_if<ScaleAsked>(&input.what)) why_not = master.scale(one->num_ranks, now);
    if (const auto* one = std::get_if<OrderAsked>(&input.what)) why_not = master.order(one->order, now);
    if (std::holds_alternative<Ticked>(input.what)) master.tick(now);
    Decisions all = {why_not};
    for (const MasterAction& action : master.take_actions()) all.push_back(encode(action));
    return all;
  }

  TemporaryFolder folder;
  std::vector<std::string> replaced;
  MasterFront master;
};

void expect_the_end(Front& front) {
  EXPECT_TRUE(front.master.done());
  EXPECT_EQ(front.master.verdict({}).exit_code, 75);
  EXPECT_EQ(front.master.step(), 5);
  EXPECT_EQ(front.master.generation(), 5);
}

TEST(MasterFront, DecidesAsAMaster) {
  Front front;
  Master master(life_options());
  for (const MasterInput& input : life()) {
    EXPECT_EQ(front.tell(input), decisions(master, input));
    EXPECT_EQ(front.master.status(input.now_ns), master.status(input.now_ns));
    EXPECT_EQ(front.master.size(), master.size());
    EXPECT_EQ(front.master.worker_of(1), master.worker_of(1));
  }
  expect_the_end(front);
  EXPECT_TRUE(front.replaced.empty());
}

TEST(MasterFront, AMasterIsKilledBeforeEachInput) {
  Front front;
  Master master(life_options());
  size_t count = 0;
  for (const MasterInput& input : life()) {
    const auto* said = std::get_if<WorkerSaid>(&input.what);
    if (said != nullptr &&
        std::holds_alternative<control::Progress>(said->message)) {  // nobody waits for that
      front.tell(input);
      decisions(master, input);
      continue;
    }
    const int64_t before = front.master.process();
    kill(static_cast<pid_t>(before), SIGKILL);
    std::vector<pollfd> ended;
    front.master.add_polled(ended);
    poll(ended.data(), ended.size(), -1);
    if (++count % 2 == 0) {  // noticed before anything is to be decided
      front.master.look();
      EXPECT_NE(front.master.process(), before);
    }
    EXPECT_EQ(front.tell(input), decisions(master, input));
    EXPECT_EQ(front.replaced.size(), count);
  }
  expect_the_end(front);
}

// It cannot come back: it is killed, and was it on another host, the journal would refuse it.
TEST(MasterFront, AMasterThatIsStoppedIsReplaced) {
  Front front(/*patience_ms=*/100);
  Master master(life_options());
  size_t count = 0;
  for (const MasterInput& input : life()) {
    if (++count % 7 == 0) kill(static_cast<pid_t>(front.master.process()), SIGSTOP);
    EXPECT_EQ(front.tell(input), decisions(master, input));
  }
  EXPECT_GE(front.replaced.size(), count / 7);
  EXPECT_THAT(front.replaced.at(0), HasSubstr("has not answered for 100 ms"));
  expect_the_end(front);
}

// A master's process without a front: one that nobody kills when another has taken over.
class Serving {
 public:
  explicit Serving(const std::string& journal) {
    auto [ours, theirs] = control::PacketChannel::pair();
    WorkerCommand command;
    command.arguments = {built("tests/launch_worker"), "master", std::to_string(theirs.fd())};
    command.inherited_fds = {theirs.fd()};
    process.emplace(command);
    channel.emplace(std::move(ours));
    channel->send(encode(ServeMaster{life_options(), journal}));
  }
  // The last packet of the answer; none: it has ended.
  std::optional<Told> tell(int64_t number, const MasterInput& input) {
    channel->send(encode(TellMaster{number, input}));
    while (true) {
      pollfd polled{channel->fd(), POLLIN, 0};
      poll(&polled, 1, -1);
      const auto packet = channel->receive();
      if (channel->closed()) return std::nullopt;
      if (!packet) continue;
      if (auto told = decode_told(packet->text)) return told;
    }
  }
  std::optional<Worker> process;
  std::optional<control::PacketChannel> channel;
};

// As after a stop of any length: the epoch of the journal is another one.
TEST(MasterFront, AMasterThatWasStoppedAndGoesOnIsFenced) {
  const TemporaryFolder folder;
  const std::vector<MasterInput> inputs = life();
  Serving stopped(folder.path("journal"));
  ASSERT_TRUE(stopped.tell(1, inputs[0]));
  stopped.process->signal(SIGSTOP);
  Serving next(folder.path("journal"));
  const auto told = next.tell(2, inputs[1]);
  ASSERT_TRUE(told);
  stopped.process->signal(SIGCONT);
  EXPECT_FALSE(stopped.tell(2, inputs[2])) << "its history would be another one";
  stopped.process->reap();
  EXPECT_EQ(stopped.process->exit_code(), 1);
  EXPECT_EQ(next.tell(2, inputs[1]), told);
  EXPECT_TRUE(next.tell(3, inputs[2]));
  EXPECT_THAT(Journal(folder.path("journal")).inputs(),
              ::testing::ElementsAreArray(inputs.begin(), inputs.begin() + 3));
}

TEST(MasterFront, WhoWaitsForAnAnswerWorksMeanwhile) {
  const TemporaryFolder folder;
  pid_t stopped = -1;
  int times = 0;
  MasterFront master({.master = life_options(),
                      .command = {built("tests/launch_worker"), "master"},
                      .folder = folder.path(""),
                      .patience_ms = 600'000,
                      .while_waiting = [&] {
                        if (stopped > 0 && ++times == 2) kill(stopped, SIGCONT);
                      }});
  master.start(1);
  stopped = static_cast<pid_t>(master.process());
  kill(stopped, SIGSTOP);
  master.stop(SIGTERM, false, 2);
  EXPECT_GE(times, 2);
  EXPECT_EQ(master.process(), stopped);
}

TEST(MasterFront, ProgressIsToldLater) {
  Front front;
  for (const MasterInput& input : life()) {
    front.tell(input);
    if (front.master.generation() == 0 && front.master.step() == 0) break;
  }
  const int64_t now = 9'000 * kLifeMs;
  for (int64_t step = 1; step < 100; ++step)
    front.master.said(0, control::Progress{.generation = 0, .step = step, .count = step}, now);
  EXPECT_EQ(front.master.step(), 0);
  EXPECT_EQ(front.master.next_tick_ns(), now + kProgressNs);
  front.master.tick(front.master.next_tick_ns());
  EXPECT_EQ(front.master.step(), 99);
  EXPECT_EQ(front.master.next_tick_ns(), kNeverNs);
}

TEST(MasterFront, ANewMasterMayStartSlowly) {
  const TemporaryFolder folder;
  std::vector<std::string> replaced;
  MasterFront master(
      {.master = life_options(),
       .command = {"/bin/sh", "-c", "sleep 0.3; exec " + built("tests/launch_worker") + " master \"$0\""},
       .folder = folder.path(""),
       .patience_ms = 30,
       .on_replaced = [&](const std::string& why) { replaced.push_back(why); }});
  master.start(1);
  EXPECT_THAT(replaced, ::testing::IsEmpty());
}

TEST(MasterFront, WhatNeverServesIsAnError) {
  MasterFront master(
      {.master = life_options(), .command = {"/bin/false"}, .folder = "/tmp", .patience_ms = 600'000});
  EXPECT_THROW(master.start(1), Error);
}

}  // namespace
}  // namespace athanor::tests::master_front_test
