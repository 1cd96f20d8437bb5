// `athanor verify`: a layout, and all of them, against one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/small_run.h"

namespace athanor::tests::verify_command_test {
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
  const Json found = verify({"-n", "3", "--set", "parallel.zero_stage=3"});
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
        verify({"-n", "4", "--set", "parallel.cp=2", "--set", std::string("parallel.cp_method=") + kind,
                "--set", "data.document_mask=true"});
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

TEST_F(Verify, AWalkGoesOnFromItsRecord) {
  const auto walk = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"verify",   "run.toml", "--all-layouts", "-n",     "2", "--steps", "2",
                                    "--sample", "1",        "--json",        "--jobs", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return place_.run(all);
  };
  const Outcome unrecorded = walk(), whole = walk({"--record", "walk.jsonl"});
  EXPECT_EQ(whole.exit_code, 0) << whole.all();
  EXPECT_EQ(whole.out, unrecorded.out);
  const std::string record = place_.read("walk.jsonl");
  const auto lines = std::count(record.begin(), record.end(), '\n');
  EXPECT_EQ(lines, 1 + std::ssize(Json::parse(whole.out).at("layouts")));

  // Cut off in the middle of a line.
  place_.write("walk.jsonl", record.substr(0, record.size() / 2));
  const std::string kept = record.substr(0, record.rfind('\n', record.size() / 2) + 1);
  const Outcome rest = walk({"--record", "walk.jsonl"});
  EXPECT_EQ(rest.exit_code, 0) << rest.all();
  EXPECT_EQ(rest.out, whole.out);
  EXPECT_TRUE(place_.read("walk.jsonl").starts_with(kept)) << "what was known is not tried again";

  // What the record says is what counts.
  std::string failed = record;
  const size_t held = failed.find("\"holds\":true");
  ASSERT_NE(held, std::string::npos);
  failed.replace(held, 12, "\"holds\":false");
  place_.write("failed.jsonl", failed);
  const Outcome told = walk({"--record", "failed.jsonl"});
  EXPECT_EQ(told.exit_code, 1) << told.all();
  EXPECT_EQ(Json::parse(told.out).at("failed"), 1);
}

TEST_F(Verify, ARecordOfSomethingElseIsRefusedAndKept) {
  const std::vector<std::string> walk = {"verify",  "run.toml", "--all-layouts", "-n",        "1",
                                         "--steps", "1",        "--record",      "walk.jsonl"};
  const Outcome first = place_.run(walk);
  ASSERT_EQ(first.exit_code, 0) << first.all();
  const std::string record = place_.read("walk.jsonl");
  std::vector<std::string> other = walk;
  other.insert(other.end(), {"--set", "optimizer.lr=0.5"});
  expect_refused(place_.run(other), 1, {"walk.jsonl", "other settings"});
  EXPECT_EQ(place_.read("walk.jsonl"), record);
  place_.write("walk.jsonl", "a letter\nof two lines\n");
  expect_refused(place_.run(walk), 1, {"walk.jsonl", "no record"});
  EXPECT_EQ(place_.read("walk.jsonl"), "a letter\nof two lines\n");
}

TEST_F(Verify, RefusesWhatDoesNotFit) {
  expect_refused(place_.run({"verify", "run.toml", "--set", "parallel.tp=7"}), 2,
                 {"parallel.tp: got 7", "nearest"});
  expect_refused(place_.run({"verify", "run.toml", "-n", "6"}), 2,
                 {"parallel.dp: got 6 ranks for the 5 micro-batches"});
  expect_refused(place_.run({"verify", "run.toml", "-n", "3", "--set", "parallel.tp=2"}), 2,
                 {"parallel.tp: got 2"});
  expect_refused(place_.run({"verify", "nothing.toml"}), 2, {"nothing.toml"});
}

}  // namespace
}  // namespace athanor::tests::verify_command_test
