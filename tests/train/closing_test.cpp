#include "athanor/run/closing.h"

#include <gmock/gmock.h>

#include <limits>

namespace athanor::tests::closing_test {
namespace {

using ::testing::Contains;
using ::testing::Pair;

TEST(Closing, TitlesSayHowItEnded) {
  const auto title = [](const char* status, int64_t step, int64_t saved_step) {
    return closing_title({.name = "t",
                          .run_folder = "runs/t",
                          .status = status,
                          .step = step,
                          .total_steps = 500,
                          .saved_step = saved_step});
  };
  EXPECT_EQ(title("finished", 500, 500), "t · finished: step 500 of 500");
  EXPECT_EQ(title("interrupted", 71, 71), "t · interrupted at step 71 of 500, saved");
  EXPECT_EQ(title("interrupted", 0, 0), "t · interrupted before step 1 of 500");
  EXPECT_EQ(title("failed", 71, 50), "t · failed at step 71 of 500");
  EXPECT_EQ(title("failed", 0, 0), "t · failed before step 1 of 500");
}

TEST(Closing, RowsSayWhatItCameToAndWhatIsNext) {
  Ending ending{.name = "t",
                .run_folder = "runs/t",
                .status = "interrupted",
                .first_step = 51,
                .step = 71,
                .total_steps = 500,
                .saved_step = 71,
                .seconds = 64,
                .plot = "runs/t/loss.svg",
                .dropped = {{"lines of metrics.jsonl", 1200}}};
  ending.validation.add(0, std::numeric_limits<double>::quiet_NaN());
  for (const auto& [step, loss] : {std::pair{51, 3.0}, {52, 2.5}, {53, 2.5}, {71, 2.75}})
    ending.training.add(step, loss);
  Rows rows = closing_rows(ending);
  EXPECT_THAT(rows, Contains(Pair("time", "1m04s for 21 steps")));
  EXPECT_THAT(rows, Contains(Pair("training loss", "first 3.0000, last 2.7500, best 2.5000 at step 52")));
  EXPECT_THAT(rows, ::testing::Not(Contains(Pair("validation loss", ::testing::_))));
  EXPECT_THAT(rows, Contains(Pair("loss plot", "runs/t/loss.svg")));
  EXPECT_THAT(rows, Contains(Pair("report", "runs/t/report.html")));
  EXPECT_THAT(rows, Contains(Pair("not written", "1,200 lines of metrics.jsonl")));
  EXPECT_THAT(rows, Contains(Pair("next", "the same command goes on from step 71")));
  ending.saved_step = 0;
  EXPECT_THAT(closing_rows(ending), Contains(Pair("next", "the same command starts at step 1")));
  ending.status = "finished";
  rows = closing_rows(ending);
  EXPECT_THAT(rows, Contains(Pair("next", "athanor evaluate runs/t")));
  EXPECT_THAT(rows, Contains(Pair("", "athanor generate runs/t --prompt \"...\"")));
}

}  // namespace
}  // namespace athanor::tests::closing_test
