#include "athanor/launch/environment/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "athanor/base/error.h"

namespace athanor::tests::environment_test {
namespace {

using VariableMap = std::map<std::string, std::string>;

RankEnvironment parse(const VariableMap& variables) {
  return parse_rank_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const VariableMap& variables) {
  try {
    parse(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RankEnvironment, AloneWithoutVariables) {
  const auto place = parse({});
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.shm_fd, -1);
  EXPECT_FALSE(place.launched);
}

TEST(RankEnvironment, OneOfMany) {
  const auto place = parse({{"RANK", "2"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "2"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"ATHANOR_SHM_FD", "7"}});
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.local_world_size, 4);
  EXPECT_EQ(place.shm_fd, 7);
  EXPECT_TRUE(place.launched);
  EXPECT_EQ(parse({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"ATHANOR_SHM_FD", "3"}}).local_rank, 1);
  EXPECT_TRUE(parse({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launched);
}

TEST(RankEnvironment, WithAnAgent) {
  const std::string job(32, 'a');
  const VariableMap variables = {{"RANK", "1"},
                                 {"WORLD_SIZE", "3"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "3"},
                                 {"ATHANOR_JOB", job},
                                 {"ATHANOR_WORKER", "4"},
                                 {"ATHANOR_CONTROL", "/run/athanor-x/agent"}};
  const auto place = parse(variables);
  EXPECT_TRUE(place.launched && place.has_agent() && place.by_athanor());
  EXPECT_EQ(place.control, "/run/athanor-x/agent");
  EXPECT_EQ(place.job, job);
  EXPECT_EQ(place.worker, 4);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.local_world_size, 3);
  EXPECT_EQ(place.believed, "");
  for (const char* missing : {"ATHANOR_JOB", "ATHANOR_WORKER"}) {
    auto without = variables;
    without.erase(missing);
    EXPECT_EQ(error_of(without),
              std::string("environment variable ATHANOR_CONTROL is set, but ") + missing + " is not");
  }
  auto wrong = variables;
  wrong["ATHANOR_WORKER"] = "first";
  EXPECT_THAT(error_of(wrong), ::testing::HasSubstr("ATHANOR_WORKER: got \"first\""));
  EXPECT_FALSE(parse({{"ATHANOR_CONTROL", "/x"}, {"ATHANOR_JOB", job}}).has_agent());  // no rank, no worker
}

TEST(RankEnvironment, OnSeveralHosts) {
  auto place = parse({{"RANK", "3"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "1"},
                      {"LOCAL_WORLD_SIZE", "2"},
                      {"ATHANOR_SHM_FD", "7"},
                      {"MASTER_ADDR", "node0"},
                      {"MASTER_PORT", "1234"}});
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_world_size, 2);
  EXPECT_EQ(place.master_address, "node0");
  EXPECT_EQ(place.master_port, 1234);
  place = parse({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "10.0.0.1"}});
  EXPECT_EQ(place.local_world_size, 1);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.master_port, 29500);
}

TEST(RankEnvironment, UnderMpirun) {
  const VariableMap variables = {{"OMPI_COMM_WORLD_RANK", "2"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const auto place = parse(variables);
  EXPECT_TRUE(place.mpi && place.launched);
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.local_world_size, 2);
  auto launched = variables;  // a launcher that mpirun has started: its ranks are its own
  launched.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"ATHANOR_SHM_FD", "3"}});
  EXPECT_FALSE(parse(launched).mpi);
  EXPECT_EQ(parse(launched).rank, 1);
}

TEST(RankEnvironment, NamesWhatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of({{"RANK", "0"}}), HasSubstr("RANK is set, but WORLD_SIZE is not"));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "2"}}), HasSubstr("WORLD_SIZE is set, but RANK is not"));
  EXPECT_THAT(error_of({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK: got \"one\""));
  EXPECT_THAT(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("expected a number from 0 to 1"));
  EXPECT_THAT(error_of({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK: got \"-1\""));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE: got \"0\""));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2 "}}), HasSubstr("WORLD_SIZE: got \"2 \""));
  EXPECT_THAT(error_of({{"RANK", ""}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK: got \"\""));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("ATHANOR_SHM_FD"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"ATHANOR_SHM_FD", "x"}}),
              HasSubstr("ATHANOR_SHM_FD"));
  EXPECT_THAT(
      error_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"ATHANOR_SHM_FD", "3"}}),
      HasSubstr("2 of 4 ranks are on this host"));
  EXPECT_THAT(error_of({{"RANK", "1"},
                        {"WORLD_SIZE", "4"},
                        {"LOCAL_RANK", "0"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"ATHANOR_SHM_FD", "3"},
                        {"MASTER_ADDR", "a"}}),
              HasSubstr("rank 1 of 4 is LOCAL_RANK 0 of 2"));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}}),
              HasSubstr("MASTER_PORT: got \"0\""));
}

}  // namespace
}  // namespace athanor::tests::environment_test
