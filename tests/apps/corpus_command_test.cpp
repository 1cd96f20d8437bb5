// `athanor corpus`: from raw files to shards that a run trains on, what was dropped, other limits, refusals.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "apps/small_run.h"

namespace athanor::tests::corpus_command_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CorpusCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    std::string lines;
    for (int i = 0; i < 30; ++i)
      lines += "{\"id\":\"n" + std::to_string(i) + "\",\"text\":\"" + story(i) + "\"}\n";
    lines += "{\"text\":\"short\"}\n{\"text\":\"" + story(4) + "\"}\nbroken\n";
    place.write("raw.jsonl", lines);
    write_settings("");
  }
  static std::string story(int i) {
    std::string text;
    for (int k = 0; k < 8; ++k) {
      std::string word;
      for (int n = i * 37 + k * 11 + 5; n > 0; n /= 7) word += "aeiouby"[n % 7], word += "mnrstl"[n % 6];
      text +=
          fmt::format("The {0} went to the {0}ton market and saw that people have {0}ed with birds. ", word);
    }
    return text;
  }
  void write_settings(const std::string& more) {
    place.write("corpus.toml",
                "[corpus]\nname = \"mine\"\n[[input]]\nchannel = \"en\"\npath = \"raw.jsonl\"\n"
                "[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\n" +
                    more + "[[stage]]\nkind = \"dedup\"\nmethod = \"exact\"\n");
  }
  Workplace place;
};

TEST_F(CorpusCommand, BuildShowDecideAndTrain) {
  const Json built = Json::parse(place.output_of({"corpus", "build", "corpus.toml", "--json"}));
  EXPECT_EQ(built["input"]["documents"], 32);
  EXPECT_EQ(built["kept"]["documents"], 30);
  EXPECT_EQ(built["refused"]["broken JSON"]["count"], 1);
  EXPECT_EQ(built, Json::parse(place.read("corpora/mine/report.json")));
  EXPECT_THAT(place.read("corpora/mine/report.html"), AllOf(HasSubstr("gopher.words"), HasSubstr("</html>")));
  EXPECT_EQ(Json::parse(place.output_of(
                {"corpus", "show", "corpus.toml", "--reason", "dedup.exact", "--json"}))[0]["id"],
            "raw.jsonl/31");

  write_settings("rules = {\"gopher.words\" = [1, 1000], \"gopher.stop_words\" = false}\n");
  EXPECT_EQ(Json::parse(place.output_of({"corpus", "decide", "corpus.toml", "--json"}))["kept"]["documents"],
            31);

  train(place, "clean", {"data.channels.en.path=corpora/mine/en"});
  EXPECT_EQ(report(place, "clean")["status"], "finished");
}

// Killed once so many files of its work are there, whatever it is doing then; workers die with it.
TEST_F(CorpusCommand, KilledTenTimesItWritesTheSameBytes) {
  std::string lines;
  for (int i = 0; i < 4000; ++i) lines += "{\"text\":\"" + story(i % 3900) + story(i / 7) + "\"}\n";
  for (int file = 0; file < 12; ++file)
    place.write("raw/" + std::to_string(file) + ".jsonl",
                lines.substr(0, lines.find('\n', lines.size() / 12 * (file + 1) - 2) + 1));
  place.write("corpus.toml",
              "[corpus]\nname = \"mine\"\nworkers = 2\n[[input]]\nchannel = \"en\"\npath = \"raw\"\n"
              "[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\n[[stage]]\nkind = \"dedup\"\n"
              "[[stage]]\nkind = \"dedup\"\nmethod = \"sentence\"\n");
  place.output_of({"corpus", "build", "corpus.toml"});
  const std::string shard = "corpora/mine/en/shard-00000.jsonl.zst",
                    scores = "corpora/mine/scores/en/shard-00000.jsonl.zst";
  const std::string expected = place.read(shard), expected_scores = place.read(scores);
  const auto files = [&] {
    int64_t count = 0;
    std::error_code vanished;
    for (auto at = std::filesystem::recursive_directory_iterator(place.path("corpora"), vanished);
         !vanished && at != std::filesystem::recursive_directory_iterator(); at.increment(vanished))
      ++count;
    return count;
  };
  const int64_t all = files();
  place.remove("corpora");
  for (int kill = 1; kill <= 10; ++kill) {
    Program build = place.start({"corpus", "build", "corpus.toml"});
    build.wait_until([&] { return files() >= all * kill / 11; });
    build.signal(SIGKILL);
    build.finish();
    EXPECT_TRUE(nothing_left_running(/*patient=*/true)) << kill;
  }
  place.output_of({"corpus", "build", "corpus.toml"});
  EXPECT_TRUE(place.read(shard) == expected);
  EXPECT_TRUE(place.read(scores) == expected_scores);
}

TEST_F(CorpusCommand, StandardInputIsAnInput) {
  place.write("stdin.toml",
              "[corpus]\nname = \"piped\"\n[[input]]\nchannel = \"en\"\npath = \"-\"\n"
              "[[stage]]\nkind = \"heuristics\"\npreset = \"gopher-quality\"\n");
  expect_refused(place.run({"corpus", "decide", "stdin.toml"}), 1, {"corpus build"});
  expect_refused(place.run({"corpus", "build", "stdin.toml"}), 1, {"standard input"});
  const std::string raw = place.read("raw.jsonl");
  const Json built =
      Json::parse(place.output_of({"corpus", "build", "stdin.toml", "--json"}, {.input = raw}));
  EXPECT_EQ(built["input"]["documents"], 32);
  EXPECT_EQ(built["sources"][0]["name"], "stdin");
  EXPECT_EQ(built["refused"]["broken JSON"]["examples"][0]["file"], "standard input");
  EXPECT_EQ(Json::parse(place.output_of({"corpus", "decide", "stdin.toml", "--json"}))["kept"],
            built["kept"]);
  EXPECT_EQ(Json::parse(place.output_of(
                {"corpus", "show", "stdin.toml", "--reason", "gopher.words", "--json"}))[0]["id"],
            "stdin/30");
  expect_refused(place.run({"corpus", "build", "stdin.toml"}, {.input = "\x1f\x8b\b\nnot gzip"}), 1,
                 {"gzip"});
  // A full disk.
  place.remove("corpora");
  expect_refused(place.run({"corpus", "build", "stdin.toml"}, {.input = raw, .max_file_bytes = 4096}), 1,
                 {"incoming"});
  EXPECT_TRUE(place.list("corpora/piped/work/stdin-spool").empty());
}

TEST_F(CorpusCommand, RefusesInOneSentence) {
  expect_refused(place.run({"corpus", "decide", "corpus.toml"}), 1, {"corpus build"});
  expect_refused(place.run({"corpus", "build", "nothing.toml"}), 1, {"nothing.toml"});
  place.output_of({"corpus", "build", "corpus.toml"});
  expect_refused(place.run({"corpus", "show", "corpus.toml", "--reason", "gopher.wrods"}), 2,
                 {"gopher.words"});
  write_settings("colour = 1\n");
  expect_refused(place.run({"corpus", "build", "corpus.toml"}), 2, {"colour", "preset"});
}

TEST_F(CorpusCommand, TrainsAClassifier) {
  std::string good, bad;
  for (int i = 0; i < 30; ++i) good += "{\"text\":\"" + story(i) + "\"}\n";
  place.write("good.jsonl", good);
  for (int i = 0; i < 30; ++i)
    bad += "{\"text\":\"buy cheap " + std::to_string(i) + " now click here offer price\"}\n";
  place.write("bad.jsonl", bad);
  const Json made =
      Json::parse(place.output_of({"corpus", "train-classifier", "--good", "good.jsonl", "--bad", "bad.jsonl",
                                   "--output", "quality.linear", "--json"}));
  EXPECT_EQ(made["held_out_auc"], 1.0);
}

}  // namespace
}  // namespace athanor::tests::corpus_command_test
