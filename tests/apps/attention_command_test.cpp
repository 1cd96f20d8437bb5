// athanor attention show as its user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::attention_command_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AttentionCommand : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> words, const ProgramOptions& options = {}) const {
    words.insert(words.begin(), {"attention", "show"});
    return place.run(words, options);
  }
  Json facts(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }
  Workplace place;
};

TEST_F(AttentionCommand, DrawsWhatIsSeenInFullAndInPart) {
  const Outcome outcome = run({"causal + band:64", "--length", "256", "--head-size", "32"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("causal + band:64\nlayer 0, 1 head, 256 positions; mask "));
  // 64 cells of 4 positions each: the diagonal is seen in part, as is the edge 64 positions behind it.
  EXPECT_THAT(outcome.out, HasSubstr("│▙▖                                                              │\n"));
  EXPECT_THAT(outcome.out, HasSubstr("│                                              ▘▛██████████████▙▖│\n"));
  EXPECT_THAT(outcome.out, HasSubstr("14,560 pairs: 22.2 % of all 65,536, 44.3 % of causal attention's\n"));
  EXPECT_THAT(outcome.out, HasSubstr("0 blocks of 64 x 64 in full and 7 in part, of 16 (43.8 %)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1.86 MFLOP forward, of head 0 of size 32\n"));
  EXPECT_THAT(outcome.out, HasSubstr("4 positions a cell"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

TEST_F(AttentionCommand, FewPositionsAreDrawnLarge) {
  EXPECT_EQ(run({"window:2", "--length", "3"}).out,
            "window:2\nlayer 0, 1 head, 3 positions; mask " + std::string("1.0 KiB\n\nhead 0: window:2\n") +
                "┌──────┐\n│██    │\n│████  │\n│  ████│\n└──────┘\n"
                "5 pairs: 55.6 % of all 9, 83.3 % of causal attention's\n"
                "0 blocks of 64 x 64 in full and 1 in part, of 1 (100.0 %)\n\n"
                "queries downwards, keys to the right, one position a cell; █ in full  ▌ in part  blank: "
                "nothing\n");
}

TEST_F(AttentionCommand, JsonHasEveryFigure) {
  const Json json =
      facts({"heads 0,2: causal; heads 1: global:64,64 + block_band:64,1 + random:3", "--head-size", "64"});
  EXPECT_EQ(json["pattern"], "heads 0,2: causal; heads 1: global:64,64 + block_band:64,1 + random:3");
  EXPECT_EQ(json["length"], 4096);
  EXPECT_EQ(json["layer"], 0);
  EXPECT_EQ(json["heads"], 3);
  EXPECT_EQ(json["groups"][0]["heads"], Json({0, 2}));
  EXPECT_EQ(json["groups"][0]["pairs"], 2 * 8390656);
  EXPECT_EQ(json["groups"][0]["share_of_causal"], 1.0);
  EXPECT_EQ(json["groups"][0]["full_blocks"], 2 * 2016);
  EXPECT_EQ(json["groups"][0]["partial_blocks"], 2 * 64);
  EXPECT_EQ(json["groups"][1]["pattern"], "global:64,64 + block_band:64,1 + random:3");
  EXPECT_EQ(json["groups"][1]["full_blocks"], 622);
  EXPECT_EQ(json["groups"][1]["block_share"], 622.0 / 4096);
  EXPECT_EQ(json["groups"][1]["flops"], 4.0 * 64 * 622 * 64 * 64);
  EXPECT_EQ(json["flops"], 4.0 * 64 * (622 * 64 * 64 + 2 * 8390656));
  EXPECT_GT(json["mask_bytes"], 1000);
  EXPECT_TRUE(facts({"causal"})["flops"].is_null());
  // Layers and heads that the options ask for.
  EXPECT_EQ(facts({"layers 0: causal; window:9", "--layer", "3", "--heads", "5"})["groups"][0]["pattern"],
            "window:9");
}

TEST_F(AttentionCommand, ReadsTheModelOfAConfig) {
  make_small_run(place);
  const Json json = facts({"run.toml"});
  EXPECT_EQ(json["pattern"], "causal");
  EXPECT_EQ(json["length"], 32);
  EXPECT_EQ(json["pairs"], json["heads"].get<int64_t>() * 32 * 33 / 2);
  EXPECT_EQ(json["flops"], 4.0 * json["head_size"].get<double>() * json["pairs"].get<double>());
  std::string text = place.read("run.toml");
  text.replace(text.find("[model]"), 7,
               "[model]\nattention_pattern = \"layers 1: window:8 + causal; causal\"");
  place.write("windows.toml", text);
  EXPECT_EQ(facts({"windows.toml", "--layer", "1"})["groups"][0]["pattern"], "causal + window:8");
  expect_refused(run({"windows.toml", "--layer", "2"}), 2, {"--layer", "got 2", "from 0 to 1"});
}

TEST_F(AttentionCommand, APictureStandsByItself) {
  EXPECT_THAT(place.output_of({"attention", "show", "heads 0: causal; heads 1: band:3", "--length", "100",
                               "--output", "a.svg"}),
              HasSubstr("wrote a.svg\n"));
  const std::string svg = place.read("a.svg");
  for (const char* part : {"</svg>", "prefers-color-scheme:dark", "head 0", "head 1", "band:3", "6.88 %"})
    EXPECT_THAT(svg, HasSubstr(part));
  for (const char* part : {"href", "<script", "url("}) EXPECT_THAT(svg, Not(HasSubstr(part)));
  EXPECT_EQ(facts({"causal", "--output", "b.svg"})["heads"], 1);
  EXPECT_TRUE(place.exists("b.svg"));
}

TEST_F(AttentionCommand, ColourOnATerminalAlone) {
  const ProgramOptions terminal{.terminal = true};
  EXPECT_THAT(run({"causal", "--length", "200"}, terminal).out, HasSubstr("\x1b[38;5;33m█"));
  const ProgramOptions plain{.environment = {"NO_COLOR=1"}, .terminal = true};
  EXPECT_THAT(run({"causal", "--length", "200"}, plain).out, Not(HasSubstr("\x1b[")));
}

TEST_F(AttentionCommand, Refusals) {
  expect_refused(run({}), 2, {"PATTERN"});
  expect_refused(run({"casual"}), 2, {"casual", "did you mean 'causal'?"});
  expect_refused(run({"band:0"}), 2, {"band:0", "from 1"});
  expect_refused(run({"window:300", "--length", "256"}), 2, {"window:300", "256 positions", "at least 300"});
  expect_refused(run({"causal + global:0,1"}), 2, {"position 0", "sees no key"});
  expect_refused(run({"heads 0-2: causal", "--heads", "4"}), 2, {"no section for head 3"});
  expect_refused(run({"causal", "--length", "0"}), 2, {"--length"});
  expect_refused(run({"causal", "--length", "9999999"}), 2, {"--length"});
  expect_refused(run({"causal", "--heads", "0"}), 2, {"--heads"});
  expect_refused(run({"causal", "--layer", "-1"}), 2, {"--layer"});
  expect_refused(run({"nowhere.toml"}), 2, {"nowhere.toml"});
  expect_refused(run({"causal", "--output", "no/such/a.svg"}), 1, {"no/such/a.svg"});
  expect_refused(place.run({"attention"}), 2, {"show"});
}

TEST_F(AttentionCommand, HelpNamesEveryTerm) {
  const std::string help = place.output_of({"attention", "show", "--help"});
  for (const char* form :
       {"causal ", "prefix:p", "chunk:c", "documents:l1,l2,...", "full ", "band:w", "window:W", "dilated:w,d",
        "global:n[,m]", "block:b", "block_band:b,m", "random:r[,b]", "strided:s", "fixed:s,c"})
    EXPECT_THAT(help, HasSubstr(form));
}

}  // namespace
}  // namespace athanor::tests::attention_command_test
