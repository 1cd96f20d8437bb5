#include "athanor/control/operator_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "athanor/base/error.h"
#include "athanor/control/messages.h"
#include "athanor/control/packet_channel.h"

namespace athanor::tests::operator_messages_test {
namespace {

using ::testing::HasSubstr;

TEST(OperatorMessages, RequestsReadAsTheyWereWritten) {
  const OperatorRequest all[] = {
      AskStatus{}, ScaleTo{3}, ScaleTo{0}, KillRank{7}, SaveNow{}, GoBack{40}, Set{"optimizer.lr=1e-3"}};
  for (const OperatorRequest& request : all) EXPECT_EQ(decode_operator_request(encode(request)), request);
}

TEST(OperatorMessages, AnswersReadAsTheyWereWritten) {
  JobStatus job{.run = "runs/\xc3\xa9t\xc3\xa9", .step = 41, .generation = 2, .goodput = 0.9375};
  for (const RankState state :
       {RankState::starting, RankState::meeting, RankState::training, RankState::leaving, RankState::ended})
    job.ranks.push_back(
        {.rank = static_cast<int>(job.ranks.size()), .pid = 4242, .node = 0, .state = state, .step = 41});
  job.ranks.push_back({.rank = 5});
  const OperatorAnswer all[] = {JobStatus{}, job, Working{"the ranks meet"}, Done{"saved"}, Refused{"no"}};
  for (const OperatorAnswer& answer : all) EXPECT_EQ(decode_operator_answer(encode(answer)), answer);
}

TEST(OperatorMessages, AThousandRanksFitIntoAPacket) {
  JobStatus job{.run = std::string(kTextBytes, 'x'), .step = 1 << 30, .generation = 1 << 20};
  for (int rank = 0; rank < 1024; ++rank)
    job.ranks.push_back({.rank = rank, .pid = 4194304, .state = RankState::training, .step = 1 << 30});
  EXPECT_LT(encode(OperatorAnswer(job)).size(), kPacketBytes);
}

std::string refusal(const std::function<void()>& decode) {
  try {
    decode();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OperatorMessages, AreRefusedByField) {
  const std::pair<std::string, std::string> requests[] = {
      {"", "no JSON object"},
      {R"({"message":"hello"})", "'hello': message: which no operator sends"},
      {R"({"message":"scale"})", "num_ranks: is missing"},
      {R"({"message":"scale","num_ranks":-1})", "num_ranks: got -1"},
      {R"({"message":"scale","num_ranks":"3"})", "num_ranks: got string"},
      {R"({"message":"kill","rank":4294967296})", "rank: got 4294967296"},
      {R"({"message":"rollback","step":-1})", "step: got -1"},
  };
  for (const auto& [text, expected] : requests)
    EXPECT_THAT(refusal([&, t = text] { decode_operator_request(t); }), HasSubstr(expected)) << text;
  const std::string job = R"({"message":"job","run":"t","step":1,"generation":0,)";
  const std::pair<std::string, std::string> answers[] = {
      {R"({"message":"status"})", "which no launcher sends"},
      {job + "\"ranks\":[]}", "goodput: is missing"},
      {job + "\"goodput\":1.5,\"ranks\":[]}", "goodput: expected a number of 0 to 1"},
      {job + "\"goodput\":1,\"ranks\":{}}", "ranks: expected an array"},
      {job + "\"goodput\":1,\"ranks\":[[0,1,0,2]]}", "ranks: expected arrays of five numbers"},
      {job + "\"goodput\":1,\"ranks\":[[0,1,0,9,1]]}", "ranks: got 9, expected 0 to 4"},
      {job + "\"goodput\":1,\"ranks\":[[0,1,0,null,1]]}", "ranks: got null"},
  };
  for (const auto& [text, expected] : answers)
    EXPECT_THAT(refusal([&, t = text] { decode_operator_answer(t); }), HasSubstr(expected)) << text;
}

}  // namespace
}  // namespace athanor::tests::operator_messages_test
