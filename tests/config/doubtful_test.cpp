#include "athanor/config/doubtful.h"

#include "config/config_testing.h"

namespace athanor::tests::doubtful_test {
namespace {

std::string doubts(const std::vector<std::string>& sets) {
  std::string all;
  for (const std::string& line : doubtful_settings(parse("", sets))) all += line + "\n";
  return all;
}

TEST(Doubtful, SettingsThatAreSeldomMeantAreNamed) {
  EXPECT_EQ(doubts({}), "");
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"train.steps=60"}, "schedule.warmup_steps = 100 is not below train.steps = 60"},
      {{"train.steps=60"}, "to 0.6 of optimizer.lr = 0.0003"},
      {{"optimizer.lr=10"}, "optimizer.lr = 10 is far above"},
      {{"data.valid_fraction=0"}, "no validation loss will be known"},
      {{"train.eval_every=2000"}, "train.eval_every = 2000 is above train.steps = 1000"},
      {{"parallel.recompute=full", "parallel.recompute_budget=1GiB"}, "is replaced by what"},
  };
  for (const auto& [sets, part] : table)
    EXPECT_NE(doubts(sets).find(part), std::string::npos) << doubts(sets) << "\nlacks: " << part;
  EXPECT_EQ(doubts({"optimizer.name=sgd", "optimizer.lr=0.5"}), "");
}

}  // namespace
}  // namespace athanor::tests::doubtful_test
