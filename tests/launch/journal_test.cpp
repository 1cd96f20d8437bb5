// A master that takes up from the journal decides as the one before would have; one that has been replaced is fenced.
#include "athanor/launch/master/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "athanor/base/error.h"
#include "job_life.h"
#include "support/temporary_folder.h"

namespace athanor::tests::journal_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Journal, AMasterTakesUpAfterAnyInput) {
  const std::vector<MasterInput> inputs = life();
  std::vector<std::vector<std::string>> expected;
  Master whole(life_options());
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
    Master master(life_options());
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

// A long run tells of its steps all the time; a master that takes up must not read them all.
TEST(Journal, OfProgressTheNewestOfEachWorkerIsKept) {
  const TemporaryFolder folder;
  std::vector<MasterInput> told;
  for (const MasterInput& input : life()) {
    told.push_back(input);
    const auto* said = std::get_if<WorkerSaid>(&input.what);
    const auto* begun = said == nullptr ? nullptr : std::get_if<control::Begun>(&said->message);
    if (begun == nullptr) continue;
    for (int64_t step = begun->step + 1; step < begun->step + 250; ++step)
      for (const int worker : {0, 1})
        told.push_back({input.now_ns, WorkerSaid{worker, control::Progress{.generation = begun->generation,
                                                                           .step = step,
                                                                           .count = step}}});
  }
  Master live(life_options());
  std::vector<std::string> last;
  {
    Journal journal(folder.path("journal"));
    for (const MasterInput& input : told) {
      journal.append(input);
      last = decisions(live, input);
    }
  }
  Journal journal(folder.path("journal"));
  EXPECT_EQ(journal.size(), std::ssize(told));
  const std::vector<MasterInput> kept = journal.inputs();
  EXPECT_LE(kept.size(), 4 * life().size());
  EXPECT_EQ(kept.back(), told.back());
  Master master(life_options());
  std::vector<std::string> again;
  for (const MasterInput& input : kept) again = decisions(master, input);
  EXPECT_EQ(again, last);
  EXPECT_EQ(master.status(told.back().now_ns), live.status(told.back().now_ns));
  EXPECT_EQ(master.step(), live.step());
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
      FormWorld{.generation = 3, .why = "y", .members = {{0, {}}}, .order = {.set = "optimizer.lr=1e-3"}},
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
                             R"("save":false,"rollback_step":-1,"set":""})"),
               Error);
  EXPECT_THROW(decode_action(R"({"message":"signal","worker":0,"number":65})"), Error);
}

}  // namespace
}  // namespace athanor::tests::journal_test
