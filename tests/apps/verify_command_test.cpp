// `athanor verify`: a layout, and all of them, against one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

class Verify : public ::testing::Test {
 protected:
  void SetUp() override { make_small_run(place_); }
  Json verify(std::vector<std::string> arguments) const {
    std::vector<std::string> all = {"verify", "run.toml", "--json", "--steps", "3"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = place_.run(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    return Json::parse(outcome.out);
  }
  Workplace place_;
};

TEST_F(Verify, ALayoutThatKeepsTheOrderOfSumsIsBitwiseEqual) {
  const Json found = verify({"-n", "3", "--set", "parallel.zero=3"});
  EXPECT_EQ(found.at("layout"), "dp 3 tp 1 zero 3 reduce tree recompute none");
  EXPECT_TRUE(found.at("bitwise")) << found.dump();
  EXPECT_TRUE(found.at("must_be_bitwise"));
  EXPECT_EQ(found.at("weight").at("difference"), 0.0);
}

TEST_F(Verify, ALayoutThatAddsInAnotherOrderIsNear) {
  const Json found = verify({"-n", "4", "--set", "parallel.tp=2", "--set", "parallel.sp=true"});
  EXPECT_FALSE(found.at("must_be_bitwise"));
  EXPECT_TRUE(found.at("holds")) << found.dump();
  EXPECT_LE(found.at("weight").at("difference"), 1e-5);
  EXPECT_FALSE(found.at("bitwise")) << "tensor parallelism adds in another order";
}

TEST_F(Verify, ContextParallelLayoutsAreNear) {
  for (const char* kind : {"ring", "ulysses"}) {
    const Json found =
        verify({"-n", "4", "--set", "parallel.cp=2", "--set", std::string("parallel.cp_kind=") + kind,
                "--set", "data.attend_across_documents=false"});
    EXPECT_EQ(found.at("layout"),
              std::string("dp 2 tp 1 cp 2 ") + kind + " zero 0 reduce tree recompute none");
    EXPECT_FALSE(found.at("must_be_bitwise"));
    EXPECT_TRUE(found.at("holds")) << found.dump();
  }
}

TEST_F(Verify, WalksEveryLayoutAndCountsWhatIsRefused) {
  const Json found = verify({"--all-layouts", "-n", "3"});
  EXPECT_EQ(found.at("failed"), 0) << found.dump();
  EXPECT_EQ(found.at("legal"), found.at("layouts").size());
  EXPECT_GT(found.at("bitwise"), 0);
  EXPECT_EQ(found.at("tried"), found.at("legal"));
  EXPECT_EQ(found.at("refused").at("parallel.sp: got true with parallel.tp = N, expected false"),
            (3 + 2 + 2 + 2 * 7) * 4 * 3)
      << "sp without tp: three dp, two of each kind of cp, pipelines of two and of three ranks with seven "
         "schedules; four stages of ZeRO, three recomputes";
  const Outcome table = place_.run({"verify", "run.toml", "--all-layouts", "-n", "2", "--steps", "2"});
  EXPECT_EQ(table.exit_code, 0) << table.all();
  EXPECT_THAT(table.out, HasSubstr("| dp 2 tp 1 zero 1 reduce tree recompute full | 2 |"));
  EXPECT_THAT(table.out, HasSubstr(" 0 failed\n"));
}

TEST_F(Verify, ASampleHasEveryPairAndItsTableEveryValue) {
  const Json found = verify({"--all-layouts", "-n", "3", "--sample", "1", "--seed", "5"});
  EXPECT_LT(found.at("tried"), found.at("legal"));
  EXPECT_EQ(found.at("failed"), 0) << found.dump();
  const Outcome table = place_.run(
      {"verify", "run.toml", "--all-layouts", "-n", "2", "--steps", "2", "--sample", "1", "--markdown"});
  EXPECT_EQ(table.exit_code, 0) << table.all();
  for (const char* value :
       {"| any of ", "| dp 2 |", "| zero 3 |", "| recompute full |", "| gpipe |", "| cp 2 ring |", "| sp |",
        "| parallel.sp: got true with parallel.tp = N, expected false | "})
    EXPECT_THAT(table.out, HasSubstr(value));
  EXPECT_THAT(table.out, HasSubstr("of them tried: "));
  EXPECT_THAT(table.err, HasSubstr("reduce tree recompute full |")) << "the rows, as they come";
}

TEST_F(Verify, RefusesWhatDoesNotFit) {
  expect_refused(place_.run({"verify", "run.toml", "--set", "parallel.tp=7"}), 2,
                 {"parallel.tp: got 7", "nearest"});
  expect_refused(place_.run({"verify", "run.toml", "-n", "6"}), 2,
                 {"parallel.dp: got 6 ranks for the 5 grains"});
  expect_refused(place_.run({"verify", "run.toml", "-n", "3", "--set", "parallel.tp=2"}), 2,
                 {"parallel.tp: got 2"});
  expect_refused(place_.run({"verify", "nothing.toml"}), 2, {"nothing.toml"});
}

}  // namespace
}  // namespace athanor
