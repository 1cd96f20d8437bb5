// A master that takes up from the journal decides as the one before would have; one that has been replaced is fenced.
#include "athanor/launch/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "support/temporary_folder.h"

namespace athanor::tests::journal_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kMs = 1'000'000;

MasterOptions options() {
  return {.num_ranks = 2, .max_restarts = 10, .max_ranks = 3, .grace_ns = 1000 * kMs};
}

// A job with every kind of input: a death, an order, a change of size, a stop.
std::vector<MasterInput> life() {
  std::vector<MasterInput> inputs;
  int64_t now = 5000 * kMs;
  const auto add = [&](auto what) { inputs.push_back({now += kMs, std::move(what)}); };
  const auto said = [&](int worker, control::WorkerMessage message) {
    add(WorkerSaid{worker, std::move(message)});
  };
  const std::string job(control::kJobDigits, 'a');
  const auto comes = [&](int worker) {
    said(worker, control::Hello{.job = job, .worker = worker, .pid = 100 + worker});
    said(worker, control::Ready{.generation = -1, .why = "the start"});
  };
  const auto back = [&](int worker, int64_t generation) {
    said(worker, control::Ready{.generation = generation, .why = "rank 1 was lost"});
  };
  const auto begun = [&](int64_t generation, int64_t step) {
    said(0, control::Begun{.generation = generation, .step = step, .run_folder = "runs/t"});
  };
  add(Started{});
  comes(0);
  comes(1);
  begun(0, 0);
  said(0, control::Progress{.generation = 0, .step = 7, .count = 7});
  add(WorkerExited{1, {.signal_number = SIGKILL, .how = "was killed by signal 9 (SIGKILL)", .seen_ns = now}});
  back(0, 0);
  comes(2);
  begun(1, 7);
  add(OrderAsked{{.save = true}});
  back(0, 1);
  back(2, 1);
  begun(2, 7);
  said(0, control::Saved{.generation = 2, .step = 7, .path = "step_00000007"});
  add(ScaleAsked{3});
  add(ScaleAsked{9});
  comes(3);
  back(0, 2);
  back(2, 2);
  begun(3, 7);
  add(OrderAsked{{.rollback_step = 5}});
  back(0, 3);
  back(2, 3);
  back(3, 3);
  begun(4, 5);
  add(StopAsked{SIGTERM, false});
  said(3, control::Farewell{.status = control::Status::interrupted});
  add(WorkerExited{3, {.exit_code = 75, .how = "exited with code 75"}});
  add(Ticked{});
  add(WorkerExited{2, {.exit_code = 75, .how = "exited with code 75"}});
  add(WorkerExited{0, {.exit_code = 75, .how = "exited with code 75"}});
  return inputs;
}

// What it answers and wants done, as text.
std::vector<std::string> decisions(Master& master, const MasterInput& input) {
  std::vector<std::string> all = {tell(master, input)};
  for (const MasterAction& action : master.take_actions()) all.push_back(encode(action));
  return all;
}

TEST(Journal, AMasterTakesUpAfterAnyInput) {
  const std::vector<MasterInput> inputs = life();
  std::vector<std::vector<std::string>> expected;
  Master whole(options());
  for (const MasterInput& input : inputs) expected.push_back(decisions(whole, input));
  EXPECT_TRUE(whole.done());
  EXPECT_EQ(whole.verdict({}).exit_code, 75);
  for (size_t killed_after = 0; killed_after <= inputs.size(); ++killed_after) {
    SCOPED_TRACE(killed_after);
    const TemporaryFolder folder;
    {
      Journal journal(folder.path("journal"));
      for (size_t i = 0; i < killed_after; ++i) journal.append(inputs[i]);
    }
    Journal journal(folder.path("journal"));
    EXPECT_EQ(journal.epoch(), 2);
    EXPECT_EQ(journal.size(), static_cast<int64_t>(killed_after));
    Master master(options());
    std::vector<std::string> last;
    for (const MasterInput& input : journal.inputs()) last = decisions(master, input);
    if (killed_after > 0) {
      EXPECT_EQ(last, expected[killed_after - 1]);
    }
    for (size_t i = killed_after; i < inputs.size(); ++i)
      EXPECT_EQ(decisions(master, inputs[i]), expected[i]) << i;
    EXPECT_TRUE(master.done());
    EXPECT_EQ(master.verdict({}).exit_code, 75);
  }
}

TEST(Journal, AMasterThatComesBackIsFenced) {
  const TemporaryFolder folder;
  Journal stale(folder.path("journal"));
  stale.append({1, Started{}});
  Journal now(folder.path("journal"));
  EXPECT_THAT(
      [&] {
        stale.append({2, Ticked{}});
      },
      ThrowsMessage<Error>(HasSubstr("epoch 1 is fenced: that of epoch 2 has taken over")));
  now.append({2, StopAsked{SIGINT, false}});
  EXPECT_THROW(stale.append({3, Ticked{}}), Error);
  EXPECT_THAT(now.inputs(),
              ::testing::ElementsAre(MasterInput{1, Started{}}, MasterInput{2, StopAsked{SIGINT, false}}));
}

TEST(Journal, WhatIsNoneIsRefused) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("text")) << std::string(5000, 'x');
  EXPECT_THROW(Journal(folder.path("text")), Error);
  EXPECT_THROW(Journal(folder.path("no/such/folder")), IoError);
}

TEST(MasterInputs, ReadAsTheyWereWritten) {
  for (const MasterInput& input : life()) EXPECT_EQ(decode_input(encode(input)), input);
  for (const MasterInput& input :
       {MasterInput{1, WorkerRefused{3, "what?"}}, MasterInput{2, AgentFailed{"no memory"}}})
    EXPECT_EQ(decode_input(encode(input)), input);
  EXPECT_THROW(decode_input("{}"), Error);
  EXPECT_THROW(decode_input(R"({"message":"dance","now_ns":1})"), Error);
  EXPECT_THROW(decode_input(R"({"message":"ticked","now_ns":-1})"), Error);
  EXPECT_THROW(decode_input(R"({"message":"said","now_ns":1,"worker":0,"text":"{}"})"), Error);
}

TEST(MasterInputs, ActionsReadAsTheyWereWritten) {
  const MasterAction all[] = {
      StartWorker{3, 1},
      FormWorld{.generation = 2,
                .why = "x",
                .members = {{0, {}}, {3, {1, 2}}},
                .left_generation = 1,
                .order = {.save = true}},
      BreakWorld{1, "was killed"},
      LeaveWorld{0},
      ReleaseSlots{2},
      SendToWorker{1, control::End{"the run has ended"}},
      SendToWorker{1, control::Stop{SIGINT}},
      SignalWorker{1, SIGKILL},
      Say{"a line"},
      JobEvent{
          .event = "failure", .step = 1, .generation = 0, .rank = 1, .cause = "c", .detect_seconds = 0.125},
  };
  for (const MasterAction& action : all) EXPECT_EQ(decode_action(encode(action)), action);
  EXPECT_THROW(decode_action(R"({"message":"form","generation":1,"why":"","members":[],"left_generation":-1,)"
                             R"("save":false,"rollback_step":-1})"),
               Error);
  EXPECT_THROW(decode_action(R"({"message":"signal","worker":0,"number":65})"), Error);
}

}  // namespace
}  // namespace athanor::tests::journal_test
