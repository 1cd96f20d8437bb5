// Layouts and the ranks that are there: what does not fit is refused by name, with the nearest that does.
#include "athanor/layout/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"
#include "layout/small_model.h"

namespace athanor::tests::check_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Message and hint, or "".
std::string refusal(const Config& config, int ranks) {
  try {
    make_layout(config, {.world_size = ranks});
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

TEST(Ranks, AxesMakeUpTheWorld) {
  EXPECT_EQ(refusal(asked([](auto& p) { p.tp = 2, p.cp = 2, p.pp = 2; }), 8), "");
  EXPECT_THAT(refusal(asked([](auto& p) { p.tp = 4; }), 6),
              AllOf(HasSubstr("parallel.tp: got 4 in a world of 6 ranks"), HasSubstr("takes 4 ranks")));
  EXPECT_THAT(
      refusal(asked([](auto& p) { p.tp = 2, p.cp = 3; }), 8),
      HasSubstr("parallel.cp: got 3 in a world of 8 ranks with parallel.tp = 2, expected a divisor of 4"));
  EXPECT_THAT(refusal(asked([](auto& p) { p.tp = 2, p.pp = 3; }), 8),
              HasSubstr("parallel.pp: got 3 in a world of 8 ranks with parallel.tp = 2"));
  EXPECT_THAT(
      refusal(asked([](auto& p) { p.tp = 2, p.dp = 3; }), 8),
      HasSubstr("parallel.dp: got 3 in a world of 8 ranks with parallel.tp = 2, expected \"auto\" or 4"));
  EXPECT_THAT(
      refusal(asked([](auto&) {}), 9),
      AllOf(HasSubstr("parallel.dp: got 9 ranks for the 8 micro-batches"), HasSubstr("expected at most 8")));
}

TEST(Ranks, ShardsAreSharedByADivisorOfThem) {
  const auto sharded = [](int64_t shard) {
    return asked([=](auto& p) { p.zero_stage = 2, p.shard_degree = shard; });
  };
  EXPECT_EQ(refusal(sharded(2), 6), "");
  EXPECT_EQ(refusal(sharded(3), 6), "");
  EXPECT_THAT(refusal(sharded(4), 6), HasSubstr("parallel.shard_degree: got 4 for 6 ranks"));
  EXPECT_THAT(refusal(sharded(4), 6), HasSubstr("the nearest is 3"));
  EXPECT_THAT(refusal(sharded(4), 5), HasSubstr("parallel.shard_degree = 0 shards over all"));
}

TEST(Ranks, SetsOfShardsHaveEveryExpertAsOften) {
  const auto sharded = [](int64_t shard, int64_t ep, int64_t cp = 1) {
    Config config =
        asked([=](auto& p) { p.zero_stage = 3, p.shard_degree = shard, p.ep = ep, p.cp = cp; }, "moe");
    config.model.num_experts = 12;
    config.train.global_batch_size = 24;  // twelve micro-batches
    return config;
  };
  for (const int64_t shard : {2, 4, 6, 12}) EXPECT_EQ(refusal(sharded(shard, 2), 12), "") << shard;
  for (const int64_t shard : {2, 3, 4, 6, 12}) EXPECT_EQ(refusal(sharded(shard, 6), 12), "") << shard;
  EXPECT_EQ(refusal(sharded(3, 2, 2), 24), "") << "of dp x cp ranks";
  EXPECT_THAT(
      refusal(sharded(3, 2), 12),
      AllOf(
          HasSubstr(
              "parallel.shard_degree: got 3 with parallel.ep = 2, shard groups of 3 ranks (with cp and tp), "
              "expected a multiple of 2 or at most 2"),
          HasSubstr("the nearest is 4")));
  EXPECT_THAT(refusal(sharded(6, 4), 12), AllOf(HasSubstr("got 6 with parallel.ep = 4"), HasSubstr("is 4")));
  EXPECT_EQ(refusal(sharded(4, 4), 12), "") << "what the hint says";
}

TEST(Ranks, PipelinesHaveLayersForTheirStages) {
  const auto piped = [](const char* schedule, int64_t pp) {
    return asked([=](auto& p) { p.schedule = schedule, p.pp = pp; });
  };
  for (const char* schedule : {"gpipe", "1f1b", "bfs", "zb-h1"}) {
    EXPECT_EQ(refusal(piped(schedule, 4), 4), "") << schedule;
    EXPECT_THAT(refusal(piped(schedule, 5), 5), HasSubstr("parallel.pp = 4")) << schedule;
  }
  for (const char* schedule : {"interleaved", "zb-v", "dualpipe-v"}) {
    EXPECT_EQ(refusal(piped(schedule, 2), 2), "") << schedule;
    EXPECT_THAT(refusal(piped(schedule, 4), 4),
                AllOf(HasSubstr("parallel.pp: got 4 ranks with 2 stages each for 4 layers"),
                      HasSubstr("parallel.pp = 2")))
        << schedule;
  }
  Config uneven = asked([](auto& p) { p.pp = 2, p.dp = 3, p.zero_stage = 2; });
  EXPECT_THAT(refusal(uneven, 6),
              AllOf(HasSubstr("parallel.zero_stage: got 2 with parallel.pp = 2 and 8 micro-batches"),
                    HasSubstr("parallel.zero_stage = 1, or train.global_batch_size = 18")));
  uneven.parallel.zero_stage = 1;
  EXPECT_EQ(refusal(uneven, 6), "");
  Config few = asked([](auto& p) { p.pp = 2, p.stage_layers = {1, 2, 1}; });
  EXPECT_THAT(refusal(few, 2), HasSubstr("parallel.stage_layers: got 3 stages, expected the 2"));
}

TEST(Ranks, AScheduleOfAFileIsForItsRanks) {
  const std::string two = to_csv(make_schedule("1f1b", {.ranks = 2, .micro_batches = 4}));
  const auto of_file = [&](const std::string& csv, int64_t pp) {
    return asked([&](auto& p) { p.schedule = "own.csv", p.schedule_csv = csv, p.pp = pp; });
  };
  Config config = of_file(two, 2);
  config.train.global_batch_size = 8;  // four micro-batches
  EXPECT_EQ(refusal(config, 2), "");
  EXPECT_THAT(refusal(of_file("nonsense", 2), 2), HasSubstr("parallel.schedule: "));
  EXPECT_THAT(refusal(of_file(two, 4), 4),
              HasSubstr("parallel.pp: got 4 ranks for 'own.csv', expected its 2"));
  EXPECT_THAT(refusal(of_file(two, 2), 2),
              HasSubstr("parallel.schedule: got 4 micro-batches in 'own.csv', expected at least the 8"));
  config.parallel.dp = 2;
  EXPECT_EQ(refusal(config, 4), "");
  config.train.global_batch_size = 10;  // five micro-batches, of which each may have four
  config.parallel.load_balance = "speed";
  EXPECT_EQ(refusal(config, 4), "");
  config.train.global_batch_size = 12;
  EXPECT_THAT(refusal(config, 4),
              HasSubstr("got 4 micro-batches in 'own.csv', expected at least the 5 that a "
                        "rank of parallel.dp may have"));
  config.parallel.dp = 4;
  config.local_sgd.sync_interval = 2;
  config.local_sgd.group_size = 2;
  EXPECT_EQ(refusal(config, 8), "") << "three for each replica group, of which each may have two";
  config.train.global_batch_size = 8;
  config.parallel = of_file(two, 2).parallel;
  config.parallel.virtual_stages = 2;
  EXPECT_THAT(refusal(config, 2),
              HasSubstr("parallel.virtual_stages: got 2 for 'own.csv', expected 2 stages in all"));
}

TEST(Ranks, ServersLeaveWorkers) {
  Config served = asked([](auto&) {});
  served.parameter_server.servers = 2;
  EXPECT_THAT(refusal(served, 2),
              HasSubstr("parameter_server.servers: got 2 in a world of 2 ranks, expected fewer"));
  EXPECT_EQ(refusal(served, 3), "");
}

TEST(Ranks, ExpertsMeetOnADivisorOfTheStage) {
  const auto shared = [](int64_t ep) {
    Config config = asked([=](auto& p) { p.ep = ep; }, "moe_bias");
    config.model.num_experts = 8;
    return config;
  };
  EXPECT_EQ(refusal(shared(4), 8), "");
  EXPECT_THAT(refusal(shared(4), 6),
              AllOf(HasSubstr("parallel.ep: got 4 with 6 ranks of a stage"), HasSubstr("the nearest is 2")));
  EXPECT_THAT(refusal(shared(2), 6),
              AllOf(HasSubstr("parallel.ep: got 2 with 8 micro-batches of a step for 6 ranks"),
                    HasSubstr("train.global_batch_size = 24")));
  // Within a tensor group or sequences that are shared, ranks with other experts have the same micro-batches.
  Config within = shared(2);
  within.parallel.tp = 2;
  EXPECT_EQ(refusal(within, 6), "");
  within.parallel.ep = 4;
  EXPECT_THAT(refusal(within, 12),
              HasSubstr("parallel.ep: got 4 with 8 micro-batches of a step for 6 ranks"));
  within.parallel.cp = 2;
  EXPECT_EQ(refusal(within, 24), "");
}

TEST(Ranks, ReplicaGroupsAreADivisorOfDp) {
  Config config = asked([](auto&) {});
  config.local_sgd.sync_interval = 2, config.local_sgd.group_size = 4;
  const auto group_ranks = [&](int ranks, int of_host) {
    return make_layout(config, {.world_size = ranks, .ranks_of_host = of_host}).replica_group_ranks();
  };
  EXPECT_EQ(group_ranks(8, 1), 4);
  EXPECT_THAT(refusal(config, 6), HasSubstr("local_sgd.group_size: got 4 of parallel.dp = 6 ranks"));
  config.local_sgd.group_size = 0;  // auto
  config.parallel.tp = config.parallel.cp = 2;
  EXPECT_EQ(group_ranks(32, 16), 4);
  EXPECT_EQ(group_ranks(32, 64), 8) << "no more than there are";
  EXPECT_EQ(group_ranks(32, 1), 1);
}

TEST(Ranks, ReplicaGroupsHaveAllExperts) {
  Config config = asked([](auto& p) { p.ep = 4, p.cp = 2; }, "moe");
  config.model.num_experts = 8;
  config.local_sgd.sync_interval = 2, config.local_sgd.group_size = 2;
  EXPECT_EQ(refusal(config, 16), "");
  config.local_sgd.group_size = 1;
  EXPECT_THAT(refusal(config, 16), AllOf(HasSubstr("parallel.ep: got 4 in replica groups of 2 ranks"),
                                         HasSubstr("the nearest is local_sgd.group_size = 2")));
}

}  // namespace
}  // namespace athanor::tests::check_test
