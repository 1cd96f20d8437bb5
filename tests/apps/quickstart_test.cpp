// The quickstart's scripts on small inputs made here: configs that the program takes, the verdict on a text, the reader
// of R's packed vectors. The quickstart as a whole is run by hand, since it takes minutes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "apps/small_run.h"
#include "support/places.h"

namespace athanor::tests::quickstart_test {
namespace {

using ::testing::HasSubstr;

struct ScriptResult {
  int exit_code = -1;
  std::string out;
};

// Words without spaces and quotes only.
ScriptResult run_script(const std::string& name, const std::vector<std::string>& arguments) {
  std::string command = "bash '" + of_source("scripts/quickstart/" + name) + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed: " + command);
  ScriptResult result;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) result.out.append(buffer, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

TEST(Quickstart, EverySizeIsAConfigThatTheProgramTakes) {
  Workplace place;
  make_small_run(place);
  for (const char* channel : {"en", "code"})
    place.write("corpora/quickstart/" + std::string(channel) + "/a.txt", place.read("en.txt"));
  const ScriptResult sizes = run_script("config.sh", {"sizes"});
  EXPECT_EQ(std::count(sizes.out.begin(), sizes.out.end(), '\n'), 4) << sizes.out;
  double last = 0;
  for (int size = 1; size <= 4; ++size) {
    for (const int steps : {1, 50, 2500}) {
      const ScriptResult config =
          run_script("config.sh", {place.path(""), std::to_string(size), std::to_string(steps)});
      ASSERT_EQ(config.exit_code, 0) << config.out;
      place.write("quickstart.toml", config.out);
      const Json settings =
          Json::parse(place.output_of({"train", "quickstart.toml", "--print-config", "--json"}));
      EXPECT_EQ(settings["train"]["steps"], steps);
      EXPECT_EQ(settings["data"]["channels"].size(), 2u) << "a channel without text is left out";
      EXPECT_LE(settings["schedule"]["warmup_steps"], steps);
      const double width = settings["model"]["hidden_size"], layers = settings["model"]["num_hidden_layers"];
      EXPECT_GE(width * layers, last);
      last = width * layers;
      EXPECT_EQ(
          int(settings["train"]["global_batch_size"]) % (2 * int(settings["train"]["micro_batch_size"])), 0)
          << "two ranks with the same work";
    }
  }
}

TEST(Quickstart, TextIsCleanedAndItsFunnelToldInTwoLines) {
  Workplace place;
  const std::string text =
      "The morning was fine, and the sisters walked to the village before breakfast to ask for letters.\n"
      "Nobody had written, but the old postman told them that a ship with soldiers would come that week.\n"
      "Their mother, who heard of it at noon, could not be persuaded to speak about anything else.\n"
      "She went to every neighbour and said that officers have always been fond of dancing and music.\n"
      "When evening came the rain began, the road turned to mud, and no carriage was seen until ten.\n"
      "At last a tired captain knocked, asked for shelter, and was given the best chair beside the fire.\n";
  place.write("data/en/1.txt", text);
  place.write("data/en/2.txt", text);
  place.write("data/en/3.txt",
              "Wir haben das alles schon einmal gesehen und sehr oft davon gehört, wie alle anderen auch.");
  const ScriptResult cleaned = run_script("clean.sh", {built("athanor"), place.path("")});
  ASSERT_EQ(cleaned.exit_code, 0) << cleaned.out;
  EXPECT_EQ(std::count(cleaned.out.begin(), cleaned.out.end(), '\n'), 2) << cleaned.out;
  EXPECT_THAT(cleaned.out, HasSubstr("dedup.minhash -1"));
  const Json report = Json::parse(place.read("corpora/quickstart/report.json"));
  EXPECT_EQ(report["kept"]["documents"], 1);
  EXPECT_EQ(report["stages"][0]["dropped"][0]["documents"], 1) << "the one in German";
}

TEST(Quickstart, WordsAreFoundAndCopiesNamed) {
  struct Case {
    const char* text;
    const char* verdict;
    int exit_code;
  };
  const Case cases[] = {
      {"The cat sat, on a mat.", "6 of 6 words stand in the training text (100.0 %), 0 runs of eight", 0},
      {"one two three four five six\nseven eight",
       "8 of 8 words stand in the training text (100.0 %), 1 runs of eight", 1},
      {"One two, three FOUR five six -- seven \"eight\" nine",
       "9 of 9 words stand in the training text (100.0 %), 2 runs", 1},
      {"one two three four\n\nfive six seven eight",
       "8 of 8 words stand in the training text (100.0 %), 0 runs", 0},
      {"nine the cat sat on a mat zwei don't dont",
       "8 of 10 words stand in the training text (80.0 %), 0 runs", 1},
      {"'the' cat's", "1 of 2 words stand in the training text (50.0 %), 0 runs", 1},
      {"one two three four five six seven mat", "8 of 8 words stand in the training text (100.0 %), 0 runs",
       0},
      {"...\n", "no words", 1},
  };
  Workplace place;
  place.write("a.txt", "One two three four\nfive six seven eight nine.\n\nThe cat sat on\n\na mat. Don't\n");
  for (const Case& each : cases) {
    place.write("text", each.text);
    const ScriptResult result = run_script("check_words.sh", {place.path("text"), place.path("a.txt")});
    EXPECT_THAT(result.out, HasSubstr(each.verdict)) << each.text;
    EXPECT_EQ(result.exit_code, each.exit_code) << each.text << result.out;
  }
}

TEST(Quickstart, WhatBecameOfTheKilledRankIsSaid) {
  const auto event = [](const std::string& kind, const std::string& rank, const std::string& rest) {
    return R"({"time":1.5,"event":")" + kind + R"(","step":300,"generation":0,"rank":)" + rank +
           R"(,"node":0,)" + rest + "}\n";
  };
  const std::string failure = event("failure", "1", "\"cause\":\"was killed by signal 9 (SIGKILL)\"");
  const auto recovered = [&](const std::string& lost) {
    return event("recovered", "null", R"("cause":null,"recover_seconds":0.412,"lost_steps":)" + lost);
  };
  const std::string finished = event("end", "null", R"("cause":"finished")");
  struct Case {
    std::string events, sentence;
    int exit_code;
  };
  const Case cases[] = {
      {failure + recovered("0") + finished,
       "rank 1 killed at step 300: training went on after 0.41 s, nothing lost\n", 0},
      {failure + recovered("2"),
       "rank 1 killed at step 300: training went on after 0.41 s, steps done again: 2\n", 0},
      {failure + finished, "rank 1 killed at step 300: all steps were done\n", 0},
      {finished, "rank 1 was not killed: the training ended before\n", 0},
      {recovered("0") + failure + event("end", "null", R"("cause":"failed")"),
       "rank 1 killed at step 300: the training did not go on\n", 1},
  };
  Workplace place;
  for (const Case& each : cases) {
    place.write("events.jsonl", each.events);
    const ScriptResult result = run_script("kill_rank.sh", {"told", place.path(""), "1"});
    EXPECT_EQ(result.out, each.sentence);
    EXPECT_EQ(result.exit_code, each.exit_code) << each.sentence;
  }
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

// As R packs a vector of lines: its size, then a zlib stream.
std::string packed_lines(const std::vector<std::string>& lines) {
  std::string plain = std::string("X\n\0\0\0\3\0\4\2\1\0\3\5\0", 14) + big_endian(5) + "UTF-8" +
                      big_endian(16) + big_endian(static_cast<uint32_t>(lines.size()));
  for (const std::string& line : lines) {
    const bool ascii =
        std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
    plain += big_endian(ascii ? 0x40009 : 0x8009) + big_endian(static_cast<uint32_t>(line.size())) + line;
  }
  std::string stream(compressBound(plain.size()), '\0');
  uLongf size = stream.size();
  compress(reinterpret_cast<Bytef*>(stream.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
           plain.size());
  return big_endian(static_cast<uint32_t>(plain.size())) + stream.substr(0, size);
}

TEST(Quickstart, NovelsComeOutOfTheirPackage) {
  const std::string first =
      packed_lines({"EMMA", "", "CHAPTER I", "", "Emma  was _very_", "clever, at ten", "years.", "",
                    "\"Yes,\" said he.", std::string(65, 'a') + " end.", ""});
  const std::string second =
      packed_lines({"It had \xC2\xA3"
                    "20 to give.",
                    "", "Yours, J."});
  const auto place_of = [](size_t offset, size_t size) {
    return big_endian(13) + big_endian(2) + big_endian(static_cast<uint32_t>(offset)) +
           big_endian(static_cast<uint32_t>(size));
  };
  const std::string index =
      "X\n" + place_of(0, first.size()) + place_of(first.size(), second.size()) + big_endian(254);
  Workplace place;
  place.write("Rdata.rdb", first + second);
  place.write("Rdata.rdx", "");
  gzFile file = gzopen(place.path("Rdata.rdx").c_str(), "wb");
  gzwrite(file, index.data(), static_cast<unsigned>(index.size()));
  gzclose(file);
  const ScriptResult result = run_script("novels.sh", {place.path("")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "\036novel at 0\nEmma was very clever, at ten years.\n\n\"Yes,\" said he. " +
                            std::string(65, 'a') + " end.\n\n\036novel at " + std::to_string(first.size()) +
                            "\nIt had \xC2\xA3"
                            "20 to give.\n\nYours, J.\n\n");
}

}  // namespace
}  // namespace athanor::tests::quickstart_test
