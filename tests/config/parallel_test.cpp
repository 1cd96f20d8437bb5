// Every key of [parallel], [local_sgd] and [compression]: what is legal, and that the rest is refused by name with what would be legal.
#include <fmt/format.h>

#include <sstream>

#include "config/config_testing.h"

namespace athanor::tests::parallel_test {
namespace {

// Lines of keys, those of [parallel] without their table.
std::string in_parallel(const std::string& keys) {
  std::string text = "\n";
  std::istringstream lines(keys);
  for (std::string line; std::getline(lines, line);)
    text += (line.substr(0, line.find('=')).find('.') == std::string::npos ? "parallel." : "") + line + "\n";
  return text;
}
void expect_legal(const std::string& keys, const std::string& others = "") {
  EXPECT_EQ(parse_error(in_parallel(keys) + others), "") << keys;
}
void expect_refused(const std::string& keys, const std::vector<std::string>& parts,
                    const std::string& others = "") {
  expect_error(in_parallel(keys) + others, parts);
}

TEST(ParallelKeys, CompressionGoesWithItsLayouts) {
  for (const std::string kind : {"none", "bf16", "int8", "topk", "powersgd"}) {
    expect_legal("compression.method = '" + kind + "'");
    expect_legal("compression.method = '" + kind +
                 "'\nzero_stage = 1\npp = 2\ncp = 2\ncompression.error_feedback = false");
    expect_legal("compression.method = '" + kind + "'\ntp = 2\nsp = true");
  }
  for (const std::string kind : {"bf16", "int8"})
    for (const std::string zero : {"2", "3"}) {
      expect_legal(fmt::format("compression.method = '{}'\ntp = 2\nzero_stage = {}", kind, zero));
      expect_legal(fmt::format("compression.method = '{}'\nshard_degree = 2\nzero_stage = {}", kind, zero));
    }
  expect_legal("compression.method = 'onebit-adam'\ncompression.warmup_steps = 20");
  expect_legal("compression.method = 'onebit-adam'\nzero_stage = 1\npp = 2\ncp = 2\ntp = 2");
  expect_refused("compression.method = 'int4'",
                 {"first.toml:2: compression.method: got 'int4'", "int8", "topk"});
  expect_refused("compression.method = 'top-k'", {"did you mean 'topk'"});
  for (const std::string kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"}) {
    const std::string key = "compression.method = '" + kind + "'\ncompression.warmup_steps = 2\n";
    expect_refused(key + "reduce = 'tree'", {"compression.method: got " + kind, "expected \"fast\""});
    expect_legal(key, "[precision]\ncompute = 'f16'");
    const std::string moe =
        "[model]\nmodel_type = 'moe'\nnum_experts = 8\nrouter_aux_loss_coef = 0.0\nrouter_bias_update_rate = "
        "0.01\n";
    expect_legal(key + "ep = 2", moe);
  }
}

TEST(ParallelKeys, CodesOfWholeGradientsNeedThem) {
  for (const std::string kind : {"topk", "powersgd", "onebit-adam"}) {
    const std::string key = "compression.method = '" + kind + "'\n",
                      got = "compression.method: got \"" + kind;
    for (const std::string layout : {"zero_stage = 2", "zero_stage = 3"})
      for (const std::string more : {"", "\nshard_degree = 2", "\npp = 2"})
        expect_refused(fmt::format("{}{}{}", key, layout, more),
                       {fmt::format("{}\" with parallel.{}, expected \"bf16\" or \"int8\"", got, layout),
                        "parallel.zero_stage = 0 or 1 without parallel.shard_degree"});
    expect_refused(key + "zero_stage = 1\nshard_degree = 2",
                   {got + "\" with parallel.shard_degree = 2, expected \"bf16\" or \"int8\"",
                    "parallel.zero_stage = 0 or 1 without parallel.shard_degree"});
  }
}

TEST(ParallelKeys, OneBitAdamIsAnOptimizerOfItsOwn) {
  const std::string key = "compression.method = 'onebit-adam'\n",
                    warm = key + "compression.warmup_steps = 5\n";
  expect_refused(key + "compression.warmup_steps = 0\n",
                 {"compression.warmup_steps: got 0", "at least one step of plain Adam", "15 to 25 %"});
  expect_refused(warm, {"optimizer.name = \"sgd\", expected adamw"}, "[optimizer]\nname = 'sgd'");
  expect_refused(warm + "compression.error_feedback = false",
                 {"compression.error_feedback: got false", "expected true"});
}

TEST(ParallelKeys, AWarmUpThatIsNotSetIsWhatTheKindWants) {
  const auto warmup = [](const std::string& keys) {
    return parse_config(in_parallel(keys) + "[train]\nsteps = 301\n", "t.toml").compression.warmup_steps;
  };
  EXPECT_EQ(warmup("compression.method = 'topk'"), 150);
  EXPECT_EQ(warmup("compression.method = 'onebit-adam'"), 100);
  EXPECT_EQ(warmup("compression.method = 'topk'\ncompression.warmup_steps = 0"), 0);
  for (const std::string kind : {"none", "bf16", "int8", "powersgd"})
    EXPECT_EQ(warmup("compression.method = '" + kind + "'"), 0) << kind;
}

TEST(ParallelKeys, FiguresOfCompressionHaveLimits) {
  expect_legal("compression.ratio = 1.0\ncompression.rank = 1024\ncompression.warmup_steps = 0");
  expect_refused("compression.ratio = 1.5", {"compression.ratio: got 1.5"});
  expect_refused("compression.ratio = 0.0", {"compression.ratio: got 0"});
  expect_refused("compression.rank = 0", {"compression.rank: got 0, expected"});
  expect_refused("compression.rank = 1025", {"compression.rank: got 1025"});
  expect_refused("compression.warmup_steps = -1", {"compression.warmup_steps: got -1, expected at least 0"});
  expect_refused("compression.error_feedback = 1", {"compression.error_feedback"});
}

TEST(ParallelKeys, TwoSpeedSynchronisation) {
  const std::string steps = "[train]\nsteps = 400\neval_every = 100\n";
  expect_legal(
      "local_sgd.sync_interval = 50\nlocal_sgd.group_size = 2\nlocal_sgd.outer_lr = "
      "1.0\nlocal_sgd.outer_momentum = 0.0\ntp = 2\nzero_stage = 3",
      steps);
  expect_legal("local_sgd.sync_interval = 50\nlocal_sgd.group_size = 'auto'", steps);
  expect_legal("local_sgd.outer_lr = 0.1");  // of nothing
  expect_refused("local_sgd.sync_interval = 60",
                 {"local_sgd.sync_interval: got 60, expected a divisor of train.steps = 400"}, steps);
  expect_refused("local_sgd.sync_interval = 80",
                 {"local_sgd.sync_interval: got 80", "train.eval_every = 100"}, steps);
  expect_legal("local_sgd.sync_interval = 50\npp = 2\ncp = 2\ntp = 2", steps);
  expect_legal("local_sgd.sync_interval = 50\nep = 2",
               steps + "[model]\nmodel_type = 'moe'\nnum_experts = 8\n");
  for (const std::string kind : {"int8", "topk", "powersgd", "onebit-adam"})
    expect_legal(
        "local_sgd.sync_interval = 50\ncompression.method = '" + kind + "'\nlocal_sgd.compression = 'bf16'",
        steps);
  expect_legal(
      "local_sgd.sync_interval = 50\nlocal_sgd.compression = 'int8'\nzero_stage = 3\nreduce = 'tree'", steps);
  expect_refused("local_sgd.compression = 'topk'",
                 {"local_sgd.compression: got 'topk', expected one of none, bf16, int8"});
  expect_legal("local_sgd.sync_interval = 50\nlocal_sgd.compression = 'int8'",
               steps + "[precision]\ncompute = 'f16'");
  expect_refused("local_sgd.sync_interval = -1", {"local_sgd.sync_interval: got -1, expected at least 0"});
  expect_refused("local_sgd.group_size = 0",
                 {"local_sgd.group_size", "\"auto\" or an integer of at least 1"});
  expect_refused("local_sgd.outer_lr = 0.0", {"local_sgd.outer_lr: got 0, expected a finite value above 0"});
  expect_refused("local_sgd.outer_momentum = 1.0",
                 {"local_sgd.outer_momentum: got 1, expected a value in [0, 1)"});
}

TEST(ParallelKeys, ShardsOfSomeRanks) {
  for (const std::string zero : {"1", "2", "3"})
    expect_legal("shard_degree = 2\nzero_stage = " + zero + "\ntp = 2\npp = 2\ncp = 2");
  expect_legal("shard_degree = 0\nzero_stage = 0");
  expect_refused("shard_degree = 2", {"parallel.shard_degree: got 2 with parallel.zero_stage = 0",
                                      "expected parallel.zero_stage = 1, 2 or 3"});
  expect_refused("shard_degree = 1\nzero_stage = 1",
                 {"parallel.shard_degree: got 1", "expected 0", "at least 2"});
  expect_refused("shard_degree = -1", {"parallel.shard_degree: got -1, expected at least 0"});
  for (const std::string kind : {"bf16", "int8"})
    for (const std::string zero : {"1", "2", "3"})
      expect_legal(fmt::format("shard_degree = 2\ncompression.method = '{}'\nzero_stage = {}", kind, zero));
  expect_legal("shard_degree = 2\nzero_stage = 2\nlocal_sgd.sync_interval = 50\nlocal_sgd.group_size = 4",
               "[train]\nsteps = 100\neval_every = 50\n");
  expect_legal("shard_degree = 2\nzero_stage = 2\nep = 2", "[model]\nmodel_type = 'moe'\nnum_experts = 8\n");
}

TEST(ParallelKeys, BalanceBySpeed) {
  const std::string key = "load_balance = 'speed'\nreduce = 'tree'\n";
  for (const int zero : {0, 1})
    expect_legal(fmt::format("{}load_balance_every = 7\nzero_stage = {}", key, zero));
  expect_refused("load_balance = 'fast'", {"parallel.load_balance: got 'fast', expected one of even, speed"});
  expect_refused(
      "load_balance = 'speed'",
      {"parallel.load_balance: got \"speed\" with parallel.reduce = \"fast\"", "expected \"tree\""});
  for (const int zero : {2, 3})
    expect_refused(fmt::format("{}zero_stage = {}", key, zero),
                   {"parallel.load_balance", fmt::format("parallel.zero_stage = {}, expected 0 or 1", zero),
                    "each rank waits for the slowest"});
  for (const char* axis : {"tp = 2", "pp = 2", "cp = 2", "tp = 2\nsp = true\npp = 2\ncp = 2"})
    expect_legal(key + axis);
  const std::string moe = "[model]\nmodel_type = 'moe'\nnum_experts = 8\n";
  for (const char* axes : {"ep = 2\ntp = 2", "ep = 2\ncp = 2", "ep = 4\ntp = 2\ncp = 2", "ep = 2\ntp = 4"})
    expect_legal(key + axes, moe);
  for (const auto& [axes, nearest] :
       {std::pair("ep = 2", 1), {"ep = 4\ntp = 2", 2}, {"ep = 8\ntp = 2\ncp = 2", 4}})
    expect_refused(key + axes,
                   {"parallel.load_balance: got \"speed\" with parallel.ep = ",
                    "expected an ep group whose ranks compute the same micro-batch",
                    fmt::format("the nearest is parallel.ep = {}", nearest)},
                   moe);
  expect_legal(key + "local_sgd.sync_interval = 50", "[train]\nsteps = 100\neval_every = 50\n");
  expect_refused("load_balance_every = 0", {"parallel.load_balance_every: got 0, expected at least 1"});
}

TEST(ParallelKeys, SchedulesAndTheirStages) {
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-v", "dualpipe-v"})
    expect_legal("schedule = '" + name + "'\npp = 2");
  expect_refused("schedule = 'zb-h2'",
                 {"parallel.schedule: got 'zb-h2', expected one of gpipe, 1f1b", "did you mean 'zb-h1'"});
  expect_refused("schedule = ''", {"parallel.schedule: got ''"});
  expect_refused("virtual_stages = 10001", {"parallel.virtual_stages: got 10001"});
  expect_refused("recompute = 'ful'", {"parallel.recompute: got 'ful'", "did you mean 'full'"});
}

TEST(ParallelKeys, KindsOfContextParallelism) {
  for (const std::string kind : {"ring", "ulysses"}) expect_legal("cp = 2\ncp_method = '" + kind + "'");
  expect_refused("cp = 2\ncp_method = 'uly'",
                 {"parallel.cp_method: got 'uly', expected one of ring, ulysses"});
  expect_refused("cp = 0", {"parallel.cp: got 0, expected at least 1"});
  const std::string model =
      "[model]\nhidden_size = 96\nnum_attention_heads = 6\nnum_key_value_heads = 6\nintermediate_size = "
      "240\n";
  expect_refused("cp = 4\ncp_method = 'ulysses'",
                 {"parallel.cp: got 4", "model.num_attention_heads = 6", "is 3", "\"ring\""}, model);
  expect_legal("cp = 4\ncp_method = 'ring'", model);
}

TEST(ParallelKeys, OthersHaveNames) {
  for (const std::string transport : {"auto", "shm", "gloo", "mpi", "nccl"})
    expect_legal("transport = '" + transport + "'");
  expect_refused("transport = 'glo'", {"parallel.transport: got 'glo'", "did you mean 'gloo'"});
  expect_refused("bucket_bytes = 3", {"parallel.bucket_bytes: got 3, expected at least 4"});
  expect_refused("dp = 0", {"parallel.dp", "\"auto\" or an integer of at least 1"});
  expect_refused("ep = 0", {"parallel.ep: got 0, expected at least 1"});
  expect_refused("zero_stage = 1.0", {"parallel.zero_stage"});
  expect_refused("zeros = 1", {"parallel.zeros", "zero"});
}

}  // namespace
}  // namespace athanor::tests::parallel_test
