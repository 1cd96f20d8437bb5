// What a person sees and keeps of runs: plots, samples of text, help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "apps/small_run.h"
#include "athanor/base/human.h"

namespace athanor::tests::display_test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const std::vector<std::string> kSampled = {"train.sample_every=4", "train.sample_prompts=[\"a\", \"be\"]",
                                           "train.sample_tokens=8"};

// Law 5: whoever looks changes nothing. Samples are the same from any number of ranks, and after a resume.
TEST(Samples, ChangeNoBitOfTheTraining) {
  const Workplace place;
  make_small_run(place);
  train(place, "blind");
  EXPECT_FALSE(place.exists(run_file("blind", "samples.jsonl")));
  train(place, "seen", kSampled);
  EXPECT_EQ(history(place, "seen"), history(place, "blind"));
  const std::string samples = place.read(run_file("seen", "samples.jsonl"));
  EXPECT_THAT(lines_of(samples), SizeIs(6));
  EXPECT_EQ(Json::parse(lines_of(samples).front())["step"], 4);
  EXPECT_EQ(Json::parse(lines_of(samples).back())["prompt"], "be");
  EXPECT_EQ(Json::parse(lines_of(samples).back())["step"], 12);
  train(place, "resumed", kSampled + std::vector<std::string>{"train.steps=6", "schedule.decay=constant"});
  train(place, "whole", kSampled + std::vector<std::string>{"schedule.decay=constant"});
  train(place, "resumed", kSampled + std::vector<std::string>{"schedule.decay=constant"});
  const auto whole = lines_of(place.read(run_file("whole", "samples.jsonl")));
  const auto resumed = lines_of(place.read(run_file("resumed", "samples.jsonl")));
  ASSERT_EQ(resumed.size(), 8u);  // two more: after the sixth step, which was the last one
  EXPECT_EQ(std::vector(resumed.end() - 4, resumed.end()), std::vector(whole.end() - 4, whole.end()));
}

TEST(Samples, AreWrittenWithGatheredParameters) {
  const Workplace place;
  make_small_run(place);
  train(place, "one", kSampled);
  train(place, "three", kSampled + std::vector<std::string>{"parallel.zero_stage=3"}, 2);
  EXPECT_EQ(history(place, "one"), history(place, "three"));
  EXPECT_EQ(place.read(run_file("one", "samples.jsonl")), place.read(run_file("three", "samples.jsonl")));
}

TEST(Plot, DrawsRunsThatEndedOrWereKilled) {
  const Workplace place;
  make_small_run(place);
  train(place, "a");
  train(place, "b", {"train.seed=2"});
  const std::string metrics = place.read(run_file("b", "metrics.jsonl"));
  place.remove(run_file("b", "report.json"));
  place.write(run_file("b", "metrics.jsonl"),
              metrics.substr(0, metrics.size() / 2) + "\n" + metrics + "{\"step\":13");
  const Outcome both =
      place.run({"plot", "runs/a", "runs/b/", "--x", "tokens", "--log", "--svg", "both.svg"});
  ASSERT_EQ(both.exit_code, 0) << both.all();
  for (const char* part : {"b: ", "damaged", "tokens", "a  train", "both.svg"})
    EXPECT_THAT(both.out, HasSubstr(part));
  for (const std::string& line : lines_of(both.out)) EXPECT_LE(display_width(line), 80u) << line;
  EXPECT_THAT(place.read("both.svg"), HasSubstr(">a, b</text>"));

  const Json json = Json::parse(place.output_of({"plot", "runs/a/metrics.jsonl", "--json", "--no-svg"}));
  EXPECT_EQ(json["runs"][0]["step"], 12);
  EXPECT_EQ(json["runs"][0]["valid_loss_last"], report(place, "a")["valid_loss_last"]);
  EXPECT_EQ(json["runs"][0]["train_loss_last"], report(place, "a")["train_loss_last"]);
  EXPECT_TRUE(json["svg"].is_null());
}

TEST(Plot, SaysWhatIsMissing) {
  const Workplace place;
  place.write("runs/a/metrics.jsonl", "");
  place.write("runs/a/checkpoints/x", "");
  place.write("file", "text");
  expect_refused(place.run({"plot", "runs/b"}), 1, {"'runs/b' does not exist"});
  expect_refused(place.run({"plot", "runs/a"}), 1, {"no finished step"});
  expect_refused(place.run({"plot", "runs/a/checkpoints"}), 1, {"metrics.jsonl", "did you mean 'runs/a'?"});
  expect_refused(place.run({"plot", "file"}), 1, {"'file' holds no metrics.jsonl"});
  expect_refused(place.run({"plot"}), 2, {"RUN"});
  expect_refused(place.run({"plot", "runs/a", "--x", "hours"}), 2, {"--x"});
}

// Every page of help, on no terminal: 80 columns, with nothing cut off a name.
TEST(Help, FitsEightyColumns) {
  const Workplace place;
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"train"},
                                                          {"launch"},
                                                          {"verify"},
                                                          {"evaluate"},
                                                          {"generate"},
                                                          {"plot"},
                                                          {"report"},
                                                          {"schedule"},
                                                          {"doctor"},
                                                          {"dataset"},
                                                          {"checkpoint", "diff"},
                                                          {"tokenizer", "train"},
                                                          {"bench"}};
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    const std::string text = place.output_of(command);
    for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_THAT(text, HasSubstr("Usage: athanor"));
  }
  EXPECT_THAT(
      place.output_of({"launch", "--help"}),
      AllOf(HasSubstr("--master ADDRESS[:PORT]"),
            HasSubstr("\nnodes come from the environment; the variables that were believed are named.\n")));
}

}  // namespace
}  // namespace athanor::tests::display_test
