// Layouts and the ranks that are there: what does not fit is refused by name, with the nearest that does.
#include "athanor/train/plan/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"
#include "athanor/train/engine/replica_groups.h"
#include "athanor/train/plan/layout_walk.h"
#include "train/small_training.h"

namespace athanor::tests::layout_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Message and hint, or "".
std::string refusal(const Config& config, int ranks) {
  try {
    check_ranks(config, ranks);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

Config layout(const std::function<void(ParallelConfig&)>& set, const char* family = "llama") {
  Config config = tiny(family);
  config.model.num_hidden_layers = 4;
  config.train.global_batch_size = 16;  // eight micro-batches
  set(config.parallel);
  return config;
}

TEST(Ranks, AxesMakeUpTheWorld) {
  EXPECT_EQ(refusal(layout([](auto& p) { p.tp = 2, p.cp = 2, p.pp = 2; }), 8), "");
  EXPECT_THAT(refusal(layout([](auto& p) { p.tp = 4; }), 6),
              AllOf(HasSubstr("parallel.tp: got 4 in a world of 6 ranks"), HasSubstr("takes 4 ranks")));
  EXPECT_THAT(
      refusal(layout([](auto& p) { p.tp = 2, p.cp = 3; }), 8),
      HasSubstr("parallel.cp: got 3 in a world of 8 ranks with parallel.tp = 2, expected a divisor of 4"));
  EXPECT_THAT(refusal(layout([](auto& p) { p.tp = 2, p.pp = 3; }), 8),
              HasSubstr("parallel.pp: got 3 in a world of 8 ranks with parallel.tp = 2"));
  EXPECT_THAT(
      refusal(layout([](auto& p) { p.tp = 2, p.dp = 3; }), 8),
      HasSubstr("parallel.dp: got 3 in a world of 8 ranks with parallel.tp = 2, expected \"auto\" or 4"));
  EXPECT_THAT(
      refusal(layout([](auto&) {}), 9),
      AllOf(HasSubstr("parallel.dp: got 9 ranks for the 8 micro-batches"), HasSubstr("expected at most 8")));
}

TEST(Ranks, ShardsAreSharedByADivisorOfThem) {
  const auto sharded = [](int64_t shard) {
    return layout([=](auto& p) { p.zero_stage = 2, p.shard_degree = shard; });
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
        layout([=](auto& p) { p.zero_stage = 3, p.shard_degree = shard, p.ep = ep, p.cp = cp; }, "moe");
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
    return layout([=](auto& p) { p.schedule = schedule, p.pp = pp; });
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
  Config uneven = layout([](auto& p) { p.pp = 2, p.dp = 3, p.zero_stage = 2; });
  EXPECT_THAT(refusal(uneven, 6),
              AllOf(HasSubstr("parallel.zero_stage: got 2 with parallel.pp = 2 and 8 micro-batches"),
                    HasSubstr("parallel.zero_stage = 1, or train.global_batch_size = 18")));
  uneven.parallel.zero_stage = 1;
  EXPECT_EQ(refusal(uneven, 6), "");
  Config few = layout([](auto& p) { p.pp = 2, p.stage_layers = {1, 2, 1}; });
  EXPECT_THAT(refusal(few, 2), HasSubstr("parallel.stage_layers: got 3 stages, expected the 2"));
}

TEST(Ranks, AScheduleOfAFileIsForItsRanks) {
  const std::string two = to_csv(make_schedule("1f1b", {.ranks = 2, .micro_batches = 4}));
  const auto of_file = [&](const std::string& csv, int64_t pp) {
    return layout([&](auto& p) { p.schedule = "own.csv", p.schedule_csv = csv, p.pp = pp; });
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
  Config served = layout([](auto&) {});
  served.parameter_server.servers = 2;
  EXPECT_THAT(refusal(served, 2),
              HasSubstr("parameter_server.servers: got 2 in a world of 2 ranks, expected fewer"));
  EXPECT_EQ(refusal(served, 3), "");
}

TEST(Ranks, ExpertsMeetOnADivisorOfTheStage) {
  const auto shared = [](int64_t ep) {
    Config config = layout([=](auto& p) { p.ep = ep; }, "moe_bias");
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
  Config config = layout([](auto&) {});
  config.local_sgd.sync_interval = 2, config.local_sgd.group_size = 4;
  EXPECT_EQ(replica_group_ranks(config, 8, 1), 4);
  try {
    replica_group_ranks(config, 6, 1);
    ADD_FAILURE() << "six ranks in replica groups of four";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("local_sgd.group_size: got 4 of parallel.dp = 6 ranks"));
  }
  config.local_sgd.group_size = 0;  // auto
  config.parallel.tp = config.parallel.cp = 2;
  EXPECT_EQ(replica_group_ranks(config, 8, 16), 4);
  EXPECT_EQ(replica_group_ranks(config, 8, 64), 8) << "no more than there are";
  EXPECT_EQ(replica_group_ranks(config, 8, 1), 1);
}

TEST(Ranks, ReplicaGroupsHaveAllExperts) {
  Config config = layout([](auto& p) { p.ep = 4; });
  config.local_sgd.sync_interval = 2, config.local_sgd.group_size = 2;
  config.parallel.cp = 2;
  EXPECT_EQ(replica_group_ranks(config, 8, 1), 2);
  config.local_sgd.group_size = 1;
  try {
    replica_group_ranks(config, 8, 1);
    ADD_FAILURE() << "experts on the ranks of two replica groups";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parallel.ep: got 4 in replica groups of 2 ranks"));
    EXPECT_THAT(error.hint(), HasSubstr("the nearest is local_sgd.group_size = 2"));
  }
}

// What `verify --all-layouts` walks.
TEST(Walk, CountsWhatIsLegalAndWhatIsRefusedByReason) {
  const LayoutWalk walk = walk_layouts(layout([](auto&) {}), 2);
  // One rank; two of dp, tp (with sp or without), cp of two kinds, pp of seven schedules: 4 stages of ZeRO, 3
  // recomputes.
  EXPECT_EQ(std::ssize(walk.legal), 12 * (1 + 1 + 2 + 2 + 7));
  EXPECT_EQ(walk.refused,
            (std::map<std::string, int64_t>{
                {"parallel.sp: got true with parallel.tp = N, expected false", 12 * (1 + 1 + 2 + 7)}}));
  for (const ParallelConfig& each : walk.legal)
    EXPECT_EQ(refusal(in_layout(layout([](auto&) {}), each), ranks_of(each)), "");
}

TEST(Walk, ASampleHasEveryPairOfValues) {
  Config config = layout([](auto&) {}, "moe_bias");
  config.model.num_experts = 4;
  const std::vector<ParallelConfig> legal = walk_layouts(config, 4).legal;
  const auto pairs_of = [](const ParallelConfig& each, std::set<std::pair<std::string, std::string>>& pairs) {
    const std::vector<std::string> values = axis_values(each);
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b) pairs.emplace(values[a], values[b]);
  };
  std::set<std::pair<std::string, std::string>> all, spanned;
  for (const ParallelConfig& each : legal) pairs_of(each, all);
  const std::vector<size_t> sample = spanning_sample(legal, 1, 1);
  for (const size_t i : sample) pairs_of(legal.at(i), spanned);
  EXPECT_EQ(spanned, all);
  EXPECT_LT(sample.size(), legal.size() / 10);
  EXPECT_TRUE(std::ranges::is_sorted(sample));
  EXPECT_EQ(sample, spanning_sample(legal, 1, 1));
  EXPECT_NE(sample, spanning_sample(legal, 1, 2));
  EXPECT_EQ(std::ssize(spanning_sample(legal, 200, 1)), 200);
  EXPECT_EQ(spanning_sample(legal, legal.size() + 5, 1).size(), legal.size());
  EXPECT_TRUE(spanning_sample({}, 3, 1).empty());
}

TEST(Walk, SaysWhatALayoutIs) {
  ParallelConfig p;
  p.pp = 2, p.dp = 2, p.tp = 2, p.cp = 3, p.ep = 4, p.zero_stage = 3;
  p.sp = true;
  p.schedule = "zb-v";
  p.recompute = "full";
  EXPECT_EQ(text_of(p), "pp 2 zb-v dp 2 tp 2 sp cp 3 ring ep 4 zero 3 reduce fast recompute full");
  EXPECT_THAT(axis_values(p), ElementsAre("pp 2", "zb-v", "dp 2", "tp 2", "sp", "cp 3 ring", "ep 4", "zero 3",
                                          "recompute full"));
  EXPECT_EQ(ranks_of(p), 24);
}

TEST(Walk, LawOneSaysWhichLayoutsKeepTheBits) {
  ParallelConfig p;
  p.pp = 4, p.zero_stage = 3;
  EXPECT_TRUE(keeps_order(p));
  p.dp = 2;
  EXPECT_FALSE(keeps_order(p)) << "fast sums";
  p.reduce = "tree";
  EXPECT_TRUE(keeps_order(p));
  for (int64_t ParallelConfig::*axis : {&ParallelConfig::tp, &ParallelConfig::cp, &ParallelConfig::ep}) {
    ParallelConfig other = p;
    other.*axis = 2;
    EXPECT_FALSE(keeps_order(other));
  }
}

}  // namespace
}  // namespace athanor::tests::layout_test
