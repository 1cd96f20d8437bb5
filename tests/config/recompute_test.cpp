#include "athanor/config/recompute.h"

#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "config/config_testing.h"

namespace athanor::tests::recompute_test {
namespace {

TEST(RecomputeText, ReadsAndWritesEveryPolicy) {
  for (const char* text : {"none", "selective", "full", "group:2", "group:12", "full*4,selective",
                           "none*1,group:3*6,selective*2", "full*5"}) {
    const auto plan = parse_recompute(text);
    ASSERT_TRUE(plan.has_value()) << text;
    EXPECT_EQ(str(*plan), text);
    EXPECT_EQ(parse_recompute(str(*plan)), plan);
  }
  EXPECT_EQ(str({}), "none");
  EXPECT_EQ(*parse_recompute("group:1"), *parse_recompute("full"));
  EXPECT_EQ(parse_recompute("full*4,group:2")->back().group, 2);
}

TEST(RecomputeText, RefusesAllElse) {
  for (const char* text : {"",
                           "ful",
                           "Full",
                           "group",
                           "group:",
                           "group:0",
                           "group:-1",
                           "group:x",
                           "group:2x",
                           "group:99999999999999999999",
                           "full*",
                           "full*0",
                           "full*-1",
                           "full*2*3",
                           "full,selective",
                           ",",
                           "full*1,",
                           ",full",
                           " full",
                           "full ",
                           "full*1, selective",
                           "*3",
                           "none*1048577"})
    EXPECT_EQ(parse_recompute(text), std::nullopt) << text;
}

TEST(RecomputeText, IsCheckedInTheConfig) {
  expect_error("[parallel]\nrecompute = 'ful'",
               {"first.toml:2: parallel.recompute: got 'ful', expected none, selective, full",
                "did you mean 'full'?"});
  expect_error("[parallel]\nrecompute = 3", {"parallel.recompute", "a string"});
  EXPECT_EQ(parse_error("[parallel]\nrecompute = 'group:4'"), "");
  const auto error = [](const char* text) -> std::string {
    Config config = parse(std::string("[parallel]\nrecompute = '") + text + "'");
    config.model.num_hidden_layers = 4;
    config.model = complete_model(config.model, 100, 16);
    config.data.seq_len = 16;
    try {
      validate(config);
    } catch (const ConfigError& thrown) {
      return thrown.what();
    }
    return "";
  };
  EXPECT_EQ(error("full*2,selective*2"), "");
  EXPECT_EQ(error("group:4"), "");
  EXPECT_NE(error("group:5").find(
                "parallel.recompute: got groups of 5 blocks, expected at most model.num_hidden_layers = 4"),
            std::string::npos);
  EXPECT_NE(error("full*3,selective*2").find("got policies for 5 blocks"), std::string::npos);
}

TEST(RecomputeText, TheBudgetIsBytes) {
  EXPECT_EQ(parse("[parallel]\nrecompute_budget = 5").parallel.recompute_budget, 5);
  EXPECT_EQ(parse("[parallel]\nrecompute_budget = '1.5 GiB'").parallel.recompute_budget, int64_t{3} << 29);
  EXPECT_EQ(parse("", {"parallel.recompute_budget=64MiB"}).parallel.recompute_budget, 64 << 20);
  expect_error("[parallel]\nrecompute_budget = 'much'",
               {"parallel.recompute_budget: got", "expected bytes: an integer, or a text like \"2GiB\""});
  expect_error("[parallel]\nrecompute_budget = -1", {"parallel.recompute_budget: got -1"});
  expect_error("[train]\nsteps = '2GiB'", {"train.steps", "an integer"});
}

}  // namespace
}  // namespace athanor::tests::recompute_test
