// Every key of [parallel]: what is legal, and that the rest is refused by name with what would be legal.
#include <fmt/format.h>

#include "config/config_testing.h"

namespace athanor {
namespace {

std::string in_parallel(const std::string& keys) {
  return "[parallel]\n" + keys + "\n";
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
    expect_legal("compression = '" + kind + "'");
    expect_legal("compression = '" + kind + "'\nzero = 1\npp = 2\ncp = 2\nerror_feedback = false");
    expect_legal("compression = '" + kind + "'\ntp = 2\nsp = true");
  }
  for (const std::string kind : {"bf16", "int8"})
    for (const std::string zero : {"2", "3"}) {
      expect_legal(fmt::format("compression = '{}'\ntp = 2\nzero = {}", kind, zero));
      expect_legal(fmt::format("compression = '{}'\nzero_shard = 2\nzero = {}", kind, zero));
    }
  expect_legal("compression = 'onebit-adam'\ncompression_warmup = 20");
  expect_legal("compression = 'onebit-adam'\nzero = 1\npp = 2\ncp = 2\ntp = 2");
  expect_refused("compression = 'int4'", {"first.toml:2: parallel.compression: got 'int4'", "int8", "topk"});
  expect_refused("compression = 'top-k'", {"did you mean 'topk'"});
  for (const std::string kind : {"bf16", "int8", "topk", "powersgd", "onebit-adam"}) {
    const std::string key = "compression = '" + kind + "'\ncompression_warmup = 2\n";
    expect_refused(key + "reduce = 'tree'", {"parallel.compression: got " + kind, "expected \"fast\""});
    expect_legal(key, "[precision]\ncompute = 'f16'");
    const std::string moe =
        "[model]\nfamily = 'moe'\nexperts = 8\nrouter_aux_loss = 0.0\nrouter_bias_rate = 0.01\n";
    expect_legal(key + "ep = 2", moe);
  }
}

TEST(ParallelKeys, CodesOfWholeGradientsNeedThem) {
  for (const std::string kind : {"topk", "powersgd", "onebit-adam"}) {
    const std::string key = "compression = '" + kind + "'\n", got = "parallel.compression: got \"" + kind;
    for (const std::string layout : {"zero = 2", "zero = 3"})
      for (const std::string more : {"", "\nzero_shard = 2", "\npp = 2"})
        expect_refused(fmt::format("{}{}{}", key, layout, more),
                       {fmt::format("{}\" with parallel.{}, expected \"bf16\" or \"int8\"", got, layout),
                        "parallel.zero = 0 or 1 without parallel.zero_shard"});
    expect_refused(key + "zero = 1\nzero_shard = 2",
                   {got + "\" with parallel.zero_shard = 2, expected \"bf16\" or \"int8\"",
                    "parallel.zero = 0 or 1 without parallel.zero_shard"});
  }
}

TEST(ParallelKeys, OneBitAdamIsAnOptimizerOfItsOwn) {
  const std::string key = "compression = 'onebit-adam'\n", warm = key + "compression_warmup = 5\n";
  expect_refused(key + "compression_warmup = 0\n",
                 {"parallel.compression_warmup: got 0", "at least one step of plain Adam", "15 to 25 %"});
  expect_refused(warm, {"optimizer.name = \"sgd\", expected adamw"}, "[optimizer]\nname = 'sgd'");
  expect_refused(warm + "error_feedback = false", {"parallel.error_feedback: got false", "expected true"});
}

TEST(ParallelKeys, AWarmUpThatIsNotSetIsWhatTheKindWants) {
  const auto warmup = [](const std::string& keys) {
    return parse_config("[train]\nsteps = 301\n" + in_parallel(keys), "t.toml").parallel.compression_warmup;
  };
  EXPECT_EQ(warmup("compression = 'topk'"), 150);
  EXPECT_EQ(warmup("compression = 'onebit-adam'"), 100);
  EXPECT_EQ(warmup("compression = 'topk'\ncompression_warmup = 0"), 0);
  for (const std::string kind : {"none", "bf16", "int8", "powersgd"})
    EXPECT_EQ(warmup("compression = '" + kind + "'"), 0) << kind;
}

TEST(ParallelKeys, FiguresOfCompressionHaveLimits) {
  expect_legal("compression_ratio = 1.0\ncompression_rank = 1024\ncompression_warmup = 0");
  expect_refused("compression_ratio = 1.5", {"parallel.compression_ratio: got 1.5"});
  expect_refused("compression_ratio = 0.0", {"parallel.compression_ratio: got 0"});
  expect_refused("compression_rank = 0", {"parallel.compression_rank: got 0, expected"});
  expect_refused("compression_rank = 1025", {"parallel.compression_rank: got 1025"});
  expect_refused("compression_warmup = -1", {"parallel.compression_warmup: got -1, expected at least 0"});
  expect_refused("error_feedback = 1", {"parallel.error_feedback"});
}

TEST(ParallelKeys, TwoSpeedSynchronisation) {
  const std::string steps = "[train]\nsteps = 400\neval_every = 100\n";
  expect_legal("sync_every = 50\nsync_group = 2\nouter_lr = 1.0\nouter_momentum = 0.0\ntp = 2\nzero = 3",
               steps);
  expect_legal("sync_every = 50\nsync_group = 'auto'", steps);
  expect_legal("outer_lr = 0.1");  // of nothing
  expect_refused("sync_every = 60", {"parallel.sync_every: got 60, expected a divisor of train.steps = 400"},
                 steps);
  expect_refused("sync_every = 80", {"parallel.sync_every: got 80", "train.eval_every = 100"}, steps);
  expect_legal("sync_every = 50\npp = 2\ncp = 2\ntp = 2", steps);
  expect_legal("sync_every = 50\nep = 2", steps + "[model]\nfamily = 'moe'\nexperts = 8\n");
  for (const std::string kind : {"int8", "topk", "powersgd", "onebit-adam"})
    expect_legal("sync_every = 50\ncompression = '" + kind + "'\nouter_compression = 'bf16'", steps);
  expect_legal("sync_every = 50\nouter_compression = 'int8'\nzero = 3\nreduce = 'tree'", steps);
  expect_refused("outer_compression = 'topk'",
                 {"parallel.outer_compression: got 'topk', expected one of none, bf16, int8"});
  expect_legal("sync_every = 50\nouter_compression = 'int8'", steps + "[precision]\ncompute = 'f16'");
  expect_refused("sync_every = -1", {"parallel.sync_every: got -1, expected at least 0"});
  expect_refused("sync_group = 0", {"parallel.sync_group", "\"auto\" or an integer of at least 1"});
  expect_refused("outer_lr = 0.0", {"parallel.outer_lr: got 0, expected a finite value above 0"});
  expect_refused("outer_momentum = 1.0", {"parallel.outer_momentum: got 1, expected a value in [0, 1)"});
}

TEST(ParallelKeys, ShardsOfSomeRanks) {
  for (const std::string zero : {"1", "2", "3"})
    expect_legal("zero_shard = 2\nzero = " + zero + "\ntp = 2\npp = 2\ncp = 2");
  expect_legal("zero_shard = 0\nzero = 0");
  expect_refused("zero_shard = 2",
                 {"parallel.zero_shard: got 2 with parallel.zero = 0", "expected parallel.zero = 1, 2 or 3"});
  expect_refused("zero_shard = 1\nzero = 1", {"parallel.zero_shard: got 1", "expected 0", "at least 2"});
  expect_refused("zero_shard = -1", {"parallel.zero_shard: got -1, expected at least 0"});
  for (const std::string kind : {"bf16", "int8"})
    for (const std::string zero : {"1", "2", "3"})
      expect_legal(fmt::format("zero_shard = 2\ncompression = '{}'\nzero = {}", kind, zero));
  expect_legal("zero_shard = 2\nzero = 2\nsync_every = 50\nsync_group = 4",
               "[train]\nsteps = 100\neval_every = 50\n");
  expect_legal("zero_shard = 2\nzero = 2\nep = 2", "[model]\nfamily = 'moe'\nexperts = 8\n");
}

TEST(ParallelKeys, BalanceBySpeed) {
  const std::string key = "balance = 'speed'\nreduce = 'tree'\n";
  for (const int zero : {0, 1}) expect_legal(fmt::format("{}balance_every = 7\nzero = {}", key, zero));
  expect_refused("balance = 'fast'", {"parallel.balance: got 'fast', expected one of even, speed"});
  expect_refused("balance = 'speed'",
                 {"parallel.balance: got \"speed\" with parallel.reduce = \"fast\"", "expected \"tree\""});
  for (const int zero : {2, 3})
    expect_refused(fmt::format("{}zero = {}", key, zero),
                   {"parallel.balance", fmt::format("parallel.zero = {}, expected 0 or 1", zero),
                    "lasts as long as the slowest takes"});
  for (const char* axis : {"tp = 2", "pp = 2", "cp = 2", "tp = 2\nsp = true\npp = 2\ncp = 2"})
    expect_legal(key + axis);
  const std::string moe = "[model]\nfamily = 'moe'\nexperts = 8\n";
  for (const char* axes : {"ep = 2\ntp = 2", "ep = 2\ncp = 2", "ep = 4\ntp = 2\ncp = 2", "ep = 2\ntp = 4"})
    expect_legal(key + axes, moe);
  for (const auto& [axes, nearest] :
       {std::pair("ep = 2", 1), {"ep = 4\ntp = 2", 2}, {"ep = 8\ntp = 2\ncp = 2", 4}})
    expect_refused(key + axes,
                   {"parallel.balance: got \"speed\" with parallel.ep = ",
                    "expected experts that are shared by ranks of "
                    "one grain",
                    fmt::format("the nearest is parallel.ep = {}", nearest)},
                   moe);
  expect_legal(key + "sync_every = 50", "[train]\nsteps = 100\neval_every = 50\n");
  expect_refused("balance_every = 0", {"parallel.balance_every: got 0, expected at least 1"});
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
  for (const std::string kind : {"ring", "ulysses"}) expect_legal("cp = 2\ncp_kind = '" + kind + "'");
  expect_refused("cp = 2\ncp_kind = 'uly'", {"parallel.cp_kind: got 'uly', expected one of ring, ulysses"});
  expect_refused("cp = 0", {"parallel.cp: got 0, expected at least 1"});
  const std::string model = "[model]\nwidth = 96\nheads = 6\nkv_heads = 6\nffn_width = 240\n";
  expect_refused("cp = 4\ncp_kind = 'ulysses'", {"parallel.cp: got 4", "model.heads = 6", "is 3", "\"ring\""},
                 model);
  expect_legal("cp = 4\ncp_kind = 'ring'", model);
}

TEST(ParallelKeys, OthersHaveNames) {
  for (const std::string transport : {"auto", "shm", "gloo", "mpi", "nccl"})
    expect_legal("transport = '" + transport + "'");
  expect_refused("transport = 'glo'", {"parallel.transport: got 'glo'", "did you mean 'gloo'"});
  expect_refused("bucket_bytes = 3", {"parallel.bucket_bytes: got 3, expected at least 4"});
  expect_refused("dp = 0", {"parallel.dp", "\"auto\" or an integer of at least 1"});
  expect_refused("ep = 0", {"parallel.ep: got 0, expected at least 1"});
  expect_refused("zero = 1.0", {"parallel.zero"});
  expect_refused("zeros = 1", {"parallel.zeros", "zero"});
}

}  // namespace
}  // namespace athanor
