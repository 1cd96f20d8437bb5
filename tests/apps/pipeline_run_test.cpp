// Pipelines as a user starts them: by a schedule of his own from a CSV file, and from weights that others have trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::pipeline_run_test {
namespace {

std::vector<std::string> pipeline(const std::string& schedule, int ranks = 2) {
  return {"parallel.pp=" + std::to_string(ranks), "parallel.schedule=" + schedule, "train.steps=6"};
}

class PipelineRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    std::string text = place.read("run.toml");
    text.replace(text.find("layers = 2"), 10, "layers = 4");
    place.write("run.toml", text);
  }
  void write_schedule(const std::string& name, const std::string& micro_batches, const std::string& file,
                      const std::string& ranks = "2") {
    place.output_of({"schedule", name, "--ranks", ranks, "--micro-batches", micro_batches, "--csv", file});
  }
  // By the launcher, which says what each rank says.
  void expect_refusal(int ranks, const std::vector<std::string>& sets, int exit_code,
                      const std::vector<std::string>& pieces) {
    const Outcome outcome = place.run(launch_arguments(ranks, "t", sets));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.all();
    for (const std::string& piece : pieces) EXPECT_THAT(outcome.err, ::testing::HasSubstr(piece));
  }
  Workplace place;
};

TEST_F(PipelineRuns, SchedulesFromFilesKeepTheBitsOfOneProcess) {
  train(place, "one", {"train.steps=6"});
  write_schedule("auto", "5", "solved.csv");
  write_schedule("zb-v", "8", "long.csv");  // of more micro-batches than a step has
  write_schedule("dualpipe-v", "3", "half.csv");
  train(place, "solved", pipeline("solved.csv"), 2);
  train(place, "long", pipeline("long.csv") + std::vector<std::string>{"parallel.stage_layers=[0,2,1,1]"}, 2);
  train(place, "half", pipeline("half.csv") + std::vector<std::string>{"parallel.zero_stage=1"}, 4);
  for (const char* run : {"solved", "long", "half"}) EXPECT_EQ(history(place, run), history(place, "one"));
}

// A run knows its schedule by what it did, not by where the file was.
TEST_F(PipelineRuns, ResumeUnderAnotherScheduleOrNone) {
  const std::vector<std::string> constant = {"schedule.decay=constant"};
  train(place, "one", constant + std::vector<std::string>{"train.steps=6"});
  write_schedule("zb-h1", "5", "first.csv");
  train(place, "t", constant + pipeline("first.csv") + std::vector<std::string>{"train.steps=2"}, 2);
  place.remove("first.csv");
  write_schedule("gpipe", "5", "second.csv");
  train(place, "t", constant + pipeline("second.csv") + std::vector<std::string>{"train.steps=4"}, 2);
  place.remove("second.csv");
  place.output_of({"evaluate", "runs/t", "--json"});
  train(place, "t", constant + std::vector<std::string>{"train.steps=6"});
  EXPECT_EQ(history(place, "t"), history(place, "one"));
}

TEST_F(PipelineRuns, FilesThatDoNotFitAreRefused) {
  write_schedule("1f1b", "3", "few.csv");
  write_schedule("1f1b", "5", "two.csv");
  place.write("stuck.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  expect_refusal(2, pipeline("few.csv"), 2,
                 {"expected at least the 5 that a rank of parallel.dp has of a step"});
  expect_refusal(3, pipeline("two.csv", 3), 2, {"parallel.pp: got 3 ranks for"});
  expect_refusal(1, {"parallel.schedule=two.csv"}, 2, {"parallel.pp: got 1 ranks for"});
  expect_refusal(2, pipeline("stuck.csv"), 2, {"deadlock: rank 0 waits at its action 1"});
  expect_refusal(2, pipeline("nowhere.csv"), 2, {"nowhere.csv"});
}

TEST_F(PipelineRuns, BeginWithWeightsOfOthers) {
  const std::vector<std::string> tied = {"model.model_type=gpt2", "model.num_key_value_heads=4",
                                         "model.tie_word_embeddings=true"};
  for (const auto& model : {std::vector<std::string>{}, tied}) {
    const std::vector<std::string> sets = model + std::vector<std::string>{"train.steps=3"};
    train(place, "source", sets);
    place.output_of({"checkpoint", "export-hf", checkpoint_of("source", 3), "hf"});
    for (const char* from : {"runs/source", "hf"}) {
      const std::vector<std::string> with =
          sets + std::vector<std::string>{std::string("train.init_from=") + from};
      train(place, "one", with);
      train(place, "1f1b", pipeline("1f1b") + with, 2);
      train(place, "zb-v", pipeline("zb-v") + with, 2);
      train(place, "data", pipeline("interleaved") + with + std::vector<std::string>{"parallel.zero_stage=1"},
            4);
      for (const char* run : {"1f1b", "zb-v", "data"}) EXPECT_EQ(history(place, run), history(place, "one"));
      for (const char* run : {"one", "1f1b", "zb-v", "data"}) place.remove(std::string("runs/") + run);
    }
    place.remove("runs");
    place.remove("hf");
  }
}

TEST_F(PipelineRuns, WeightsOfAnotherModelAreRefusedByName) {
  train(place, "source", {"train.steps=1"});
  const std::vector<std::string> from = {"train.init_from=runs/source"};
  for (const std::string layers : {"2", "6"})
    expect_refusal(2, pipeline("1f1b") + from + std::vector<std::string>{"model.num_hidden_layers=" + layers},
                   2,
                   {"model.num_hidden_layers: got " + layers + ", expected 4 as in init_from runs/source"});
}

}  // namespace
}  // namespace athanor::tests::pipeline_run_test
