#include "athanor/observe/side_output.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <vector>

#include "athanor/base/error.h"

namespace athanor::tests::side_output_test {
namespace {

using ::testing::ElementsAre;

TEST(SideOutput, SaysTheFirstFailureAndTheReturnAndCounts) {
  std::vector<std::string> said;
  SideOutput output("metrics.jsonl", [&](const std::string& text) { said.push_back(text); });
  const auto works = [&] { return output.attempt([] {}); };
  const auto fails = [&] { return output.attempt([] { throw IoError("disk is full", ENOSPC); }); };
  EXPECT_TRUE(works());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(fails());
  EXPECT_FALSE(output.attempt([] { throw IoError("sync", EIO); }, /*lost=*/0));
  EXPECT_EQ(output.dropped(), 3);
  EXPECT_TRUE(works());
  EXPECT_FALSE(fails());  // an output that comes and goes fills no screen
  EXPECT_TRUE(works());
  EXPECT_EQ(output.dropped(), 4);
  EXPECT_THAT(said, ElementsAre("metrics.jsonl: disk is full; the run goes on and tries again",
                                "metrics.jsonl: can be written again, 3 dropped"));
}

TEST(SideOutput, MisuseIsNotHidden) {
  SideOutput output("x", [](const std::string&) {});
  EXPECT_THROW(output.attempt([] { throw Error("step out of order"); }), Error);
}

}  // namespace
}  // namespace athanor::tests::side_output_test
