// Runs on a text without end: the same batches on any number of ranks and whatever is killed, and an end where it ends.
#include <gmock/gmock.h>

#include "support/power_env.h"
#include "train/whole_run.h"

namespace athanor::tests::streams_test {
namespace {

// Words of one letter and a digit: 40 of them, and the end of text.
void write_tokenizer(const std::string& path) {
  std::string vocabulary = R"("<unk>": 0)";
  for (int id = 1; id < 40; ++id) vocabulary += fmt::format(R"(, "w{}": {})", id, id);
  system_env().write_atomically(
      path,
      fmt::format(
          R"({{"version": "1.0", "added_tokens": [{{"id": 40, "content": "<|endoftext|>", "special": true,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}}], "normalizer": null,
        "pre_tokenizer": {{"type": "WhitespaceSplit"}}, "post_processor": null, "decoder": null,
        "model": {{"type": "WordLevel", "unk_token": "<unk>", "vocab": {{{}, "<|endoftext|>": 40}}}}}})",
          vocabulary));
}

// A run whose first channel follows a folder of JSON lines: 37 documents, in four files.
struct StreamRun : WholeRun {
  explicit StreamRun(int num_ranks) : WholeRun(num_ranks) {
    Env& env = system_env();
    write_tokenizer(folder.path("tokenizer.json"));
    env.create_folders(folder.path("in"));
    const RandomStream words(9, "words");
    uint64_t word = 0;
    for (int file = 0; file < 4; ++file) {
      std::string lines;
      for (int d = file; d < 37; d += 4) {
        std::string text;
        for (int i = 0; i < 3 + d % 11; ++i) text += fmt::format("w{} ", 1 + words.word(word++, 0) % 39);
        lines += fmt::format("{{\"text\": \"{}\"}}\n", text);
      }
      env.write_atomically(folder.path(fmt::format("in/{}.jsonl", file)), lines);
    }
    env.write_atomically(folder.path("in/_SUCCESS"), "");
    config.data.channels[0] = {.name = "live", .path = folder.path("in"), .weight = 2.0, .follow = true};
    config.data.tokenizer = folder.path("tokenizer.json");
    config.data.shuffle_window = 4;
    config.parallel.reduce = "tree";
    config.train.steps = 1000;  // the text ends long before
    config = parse_config(print_config(config), "run.toml");
  }
};

class Streams : public ::testing::TestWithParam<int> {};

TEST_P(Streams, ManyRanksReadWhatOneReadsAndTheRunEndsWithTheText) {
  StreamRun one(1), many(GetParam());
  one.train(system_env());
  const TrainReport report = many.train(system_env());
  const History expected = one.history(), got = many.history();
  // 37 documents of 3 to 13 words and an end: 329 tokens, 54 sequences of 6, drawn at two of three places of five a step.
  ASSERT_GT(expected.steps.size(), 12u);
  ASSERT_LT(expected.steps.size(), 22u);
  ASSERT_EQ(got.steps.size(), expected.steps.size());
  for (size_t i = 0; i < got.steps.size(); ++i) EXPECT_EQ(got.steps[i], expected.steps[i]);
  EXPECT_EQ(report.steps, std::ssize(expected.steps));
  // A run that has ended goes on to the same end.
  many.train(system_env());
  EXPECT_EQ(many.history(), got);
}

// Power is cut at every 31st operation of a file.
TEST_P(Streams, ARunThatIsKilledReadsTheSame) {
  const auto train = [](const StreamRun& run) {
    PowerEnv calm(run.folder.path("runs"));  // its files need not wait for a disk
    run.train(calm);
  };
  StreamRun undisturbed(GetParam());
  train(undisturbed);
  const History expected = undisturbed.history();
  int cuts = 0;
  for (int64_t at = 3;; at += 31) {
    StreamRun run(GetParam());
    PowerEnv env(run.folder.path("runs"), at);
    try {
      run.train(env);
    } catch (const Failure&) {  // the one that was planted
    }
    if (!env.failed()) break;
    env.cut();
    train(run);
    ASSERT_EQ(run.history(), expected) << "operation " << at;
    ++cuts;
  }
  EXPECT_GT(cuts, 10);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Streams, ::testing::Values(1, 2, 3),
                         [](const auto& of) { return "ranks" + std::to_string(of.param); });

}  // namespace
}  // namespace athanor::tests::streams_test
