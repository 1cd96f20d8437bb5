// Two runs made by hand: every difference that law 5 forbids is found, and nothing else.
#include "athanor/chaos/run_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/group.h"
#include "support/engine.h"
#include "support/temporary_folder.h"

namespace athanor::tests::run_evidence_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

Json line_of(int64_t step) {
  return {{"step", step},
          {"tokens", 64 * step},
          {"loss", 4.5 - 0.01 * static_cast<double>(step)},
          {"channel_loss", {{"en", 4.25}, {"zh", 4.75}}},
          {"grad_norm", 0.7},
          {"lr", 1e-3},
          {"loss_scale", 1.0},
          {"step_seconds", 0.01 * static_cast<double>(step)},
          {"generation", 0}};
}

class RunByHand {
 public:
  RunByHand() {
    for (int64_t step = 1; step <= 5; ++step) lines.push_back(line_of(step));
  }
  RunEvidence evidence() const {
    const TemporaryFolder folder;
    std::string text;
    for (const Json& line : lines) text += line.dump() + "\n";
    const std::string run = folder.path("run");
    system_env().create_folders(run + "/checkpoints");
    system_env().write_atomically(run + "/metrics.jsonl", text + torn);
    Engine engine;
    const Tensor weight = engine.random({7, 5}, weights);
    const std::string state = R"({"seed":1,"step":5,"tokens":)" + std::to_string(tokens) + "}";
    write_checkpoint(system_env(), *make_single_group(), run + "/checkpoints",
                     {.step = 5, .state = state, .tensors = {{"w", weight}}, .files = {}});
    return read_evidence(system_env(), run, ledger);
  }
  std::vector<Json> lines;
  std::string weights = "one", ledger = "steps 1 to 5: abc", torn;
  int64_t tokens = 320;
};

std::vector<std::string> found(const std::function<void(RunByHand&)>& change) {
  RunByHand changed;
  change(changed);
  return differences(changed.evidence(), RunByHand().evidence());
}

TEST(RunEvidence, EqualRunsHaveNoDifference) {
  EXPECT_THAT(found([](RunByHand&) {}), IsEmpty());
}

TEST(RunEvidence, TimesMayDiffer) {
  EXPECT_THAT(found([](RunByHand& run) {
                run.lines[2]["step_seconds"] = 17.0;
                run.lines[2]["generation"] = 3;
                run.lines[4]["world_size"] = 2;
              }),
              IsEmpty());
}

TEST(RunEvidence, EachFieldIsCompared) {
  for (const std::string& field : compared_fields()) {
    if (field == "step") continue;  // below
    const auto wrong = found([&](RunByHand& run) {
      Json& value = run.lines[3][field];
      if (value.is_object())
        value["zh"] = std::nextafter(value["zh"].get<double>(), 9.0);
      else if (value.is_number_float())
        value = std::nextafter(value.get<double>(), 9.0);
      else
        value = value.get<int64_t>() + 1;
    });
    EXPECT_THAT(wrong, ElementsAre(HasSubstr("step 4: " + field + ": got "))) << field;
  }
}

TEST(RunEvidence, ASignOfZeroAndAValueThatIsNotFinite) {
  RunByHand plus, minus, none;
  plus.lines[1]["grad_norm"] = 0.0;
  minus.lines[1]["grad_norm"] = -0.0;
  none.lines[1]["grad_norm"] = nullptr;
  EXPECT_THAT(differences(minus.evidence(), plus.evidence()), ElementsAre(HasSubstr("grad_norm: got -0.0")));
  EXPECT_THAT(differences(none.evidence(), plus.evidence()), ElementsAre(HasSubstr("grad_norm: got null")));
  EXPECT_THAT(differences(none.evidence(), none.evidence()), IsEmpty());
}

TEST(RunEvidence, EachStepStandsOnce) {
  EXPECT_THAT(found([](RunByHand& run) { run.lines.insert(run.lines.begin() + 2, run.lines[1]); }),
              ElementsAre("step 2 stands again after step 2"));
  EXPECT_THAT(found([](RunByHand& run) { run.lines.erase(run.lines.begin() + 2); }),
              ElementsAre("step 3 is missing"));
  EXPECT_THAT(found([](RunByHand& run) { std::swap(run.lines[1], run.lines[2]); }),
              ElementsAre("step 2 is missing"));
  EXPECT_THAT(found([](RunByHand& run) { run.lines.pop_back(); }),
              ElementsAre("steps 1 to 4, expected 1 to 5"));
  EXPECT_THAT(found([](RunByHand& run) { run.lines.erase(run.lines.begin()); }),
              ElementsAre("steps 2 to 5, expected 1 to 5"));
  EXPECT_THAT(found([](RunByHand& run) { run.lines.clear(); }), ElementsAre("no steps"));
}

TEST(RunEvidence, WeightsStateAndLedger) {
  EXPECT_THAT(found([](RunByHand& run) { run.weights = "two"; }),
              ElementsAre(HasSubstr("checkpoint: got 5 ")));
  EXPECT_THAT(found([](RunByHand& run) { run.tokens = 384; }), ElementsAre(HasSubstr("checkpoint: got 5 ")));
  EXPECT_THAT(found([](RunByHand& run) { run.ledger = "steps 1 to 5: abd"; }),
              ElementsAre(HasSubstr("ledger: got 'steps 1 to 5: abd'")));
}

TEST(RunEvidence, WhatCannotBeReadIsAnError) {
  RunByHand torn, other, missing;
  torn.torn = R"({"step":6,"tok)";
  EXPECT_THROW(torn.evidence(), Error);
  other.lines[2] = Json::array({1});
  EXPECT_THROW(other.evidence(), Error);
  missing.lines[2].erase("lr");
  EXPECT_THROW(missing.evidence(), Error);
  EXPECT_THROW(read_evidence(system_env(), "/nonexistent", ""), IoError);
}

}  // namespace
}  // namespace athanor::tests::run_evidence_test
