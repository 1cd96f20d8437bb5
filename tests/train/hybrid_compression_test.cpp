// Compressed gradients between sets of shards (hybrid sharding): bytes, memory, checkpoints, and what else cuts a model.
// compression_test.cpp holds what is computed against its definition.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/train/engine/compression_state.h"
#include "athanor/train/plan/memory_plan.h"
#include "train/compressed_training.h"
#include "train/saved_run.h"

namespace athanor::tests::hybrid_compression_test {
namespace {

const char* const kCodesOfSets[] = {"bf16", "int8"};

Config in_sets(Config config, int dp, int shard, int zero = 1) {
  config.parallel.dp = dp;
  config.parallel.zero_stage = zero;
  config.parallel.shard_degree = shard;
  return config;
}

// Of a rank's gradients what they are on the wire, as docs/compression.md says.
class Wire {
 public:
  Wire(const Config& config, const Training& training, int rank) : config_(config), p_(config.parallel) {
    const auto shard = static_cast<int>(p_.shard_degree);
    const Buckets buckets(training.model->weights(), {.rows = shard, .bucket_bytes = p_.bucket_bytes});
    const int place = rank % shard, set = rank / shard, sets = static_cast<int>(p_.dp) / shard;
    for (size_t b = 0; b < buckets.list.size(); ++b) {
      const Bucket& bucket = buckets.list[b];
      const int64_t row = 4 * bucket.layout.count;
      if (!buckets.params(b).empty()) inside += (shard - 1) * row;  // values
      const LeafRange micro_batches = micro_batches_of_rank(8, sets, set);
      // With ZeRO 2 every round, which has a micro-batch of each rank.
      inside += (p_.zero_stage == 2 ? (micro_batches.second - micro_batches.first + shard - 1) / shard : 1) *
                (shard - 1) * row;
      across += of_bucket(bucket, place, set, sets);
    }
  }
  int64_t inside = 0, across = 0;

 private:
  static int64_t all_reduce(int64_t count, int rank, int ranks) {
    const int64_t part = count / ranks + (rank < count % ranks ? 1 : 0);
    return 4 * (count - part + (ranks - 1) * part);
  }
  int64_t of_bucket(const Bucket& bucket, int place, int set, int sets) const {
    const CompressionOptions options = compression_of(config_);
    int64_t exact = 0, blocks = 0;
    for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
      const Param& param = bucket.weights[slot]->param();
      const int64_t count = bucket.layout.piece(slot, place).count();
      if (is_compressed(param, options))
        blocks += (count + 255) / 256;
      else
        exact += count;
    }
    return all_reduce(exact, set, sets) +
           2 * (sets - 1) * ((blocks + sets - 1) / sets) * (config_.compression.method == "bf16" ? 512 : 260);
  }
  const Config& config_;
  const ParallelConfig& p_;
};

TEST(HybridCompression, SendsTheDocumentedBytes) {
  for (const char* kind : kCodesOfSets)
    for (const auto& [dp, shard, zero] :
         {std::tuple(4, 2, 1), {6, 3, 1}, {6, 2, 1}, {4, 2, 2}, {6, 3, 2}, {6, 2, 2}}) {
      const Config config = in_sets(compressed_blocks(kind, "gpt2"), dp, shard, zero);
      std::map<int, std::pair<Group*, Group*>> groups;
      std::mutex mutex;
      run_layout(config, {.lay_out =
                              [&, of = shard](Training& training, Mesh& mesh) {
                                ReplicaGroups sets =
                                    make_replica_groups(mesh.world(), mesh.shape(), of, "set of shards");
                                const std::lock_guard lock(mutex);
                                groups[mesh.world().rank()] = {sets.inner.get(), sets.across.get()};
                                training.share_shards(std::move(sets));
                              },
                          .end =
                              [&](Training& training, TrainState&, World& world) {
                                for (const auto& param : training.model->params())
                                  static_cast<void>(param->value());  // what is on its way
                                const Wire wire(config, training, world.rank());
                                const std::lock_guard lock(mutex);
                                const auto& [inner, across] = groups.at(world.rank());
                                EXPECT_EQ(across->traffic().total().bytes, config.train.steps * wire.across)
                                    << kind << " rank " << world.rank() << " of " << world.size();
                                const Traffic inside = inner->traffic();
                                const int64_t gathered = inside.of(Collective::all_gather).bytes,
                                              norms = inside.of(Collective::all_reduce).bytes;
                                // Values are gathered before the first step, too.
                                EXPECT_EQ(inside.total().bytes - norms - gathered / (config.train.steps + 1),
                                          config.train.steps * wire.inside)
                                    << kind << " rank " << world.rank() << " of " << world.size();
                              }});
    }
}

// What is owed is shared out like the rest: all residuals of a set are of one copy of the matrices.
TEST(HybridCompression, ResidualsAreSharedOutInASet) {
  for (const char* kind : kCodesOfSets) {
    const Config config = in_sets(compressed_blocks(kind), 6, 3, 2);
    std::mutex mutex;
    std::map<std::string, int64_t> elements;  // by what they are called in a checkpoint
    int64_t matrices = 0;
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 const std::lock_guard lock(mutex);
                 for (const CompressionState& state : training.parallel->compression_states())
                   elements[state.prefix(state.rank)] += state.range.count();
                 if (world.rank() > 0) return;
                 for (const auto& param : training.model->params())
                   if (is_compressed(*param, compression_of(config))) matrices += param->numel();
               }});
    int64_t sent = 0, of_sum = 0;
    for (const auto& [name, count] : elements) (name.starts_with("server_error.") ? of_sum : sent) += count;
    EXPECT_EQ(sent, 2 * matrices) << kind << ": of two sets";
    EXPECT_EQ(of_sum, matrices) << kind;
  }
}

TEST(HybridCompression, ThePlanIsTheMeasuredPeak) {
  for (const auto& [kind, zero] :
       {std::pair("bf16", 1), {"bf16", 3}, {"int8", 1}, {"int8", 2}, {"int8", 3}}) {
    Config config = in_sets(compressed_blocks(kind, "gpt2"), 4, 2, zero);
    config.precision.compute = "bf16";
    config.train.steps = 2;
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 const MemoryPlan plan = plan_memory({config, 2, world.rank(), world.size()});
                 EXPECT_EQ(plan.usage.peak_total, training.arena.usage().peak_total)
                     << config.compression.method << " zero " << config.parallel.zero_stage;
                 EXPECT_EQ(plan.usage.peak, training.arena.usage().peak);
               }});
  }
}

TEST(HybridCompression, ResumesToTheSameBits) {
  for (const auto& [kind, zero] : {std::pair("bf16", 2), {"int8", 1}, {"int8", 3}}) {
    const Config config = in_sets(compressed_blocks(kind, "gpt2"), 4, 2, zero);
    const VerifyRun whole = run_layout(config);
    const SavedRun saved = save_after(config, 2, "hybrid_compression");
    const VerifyRun rest = resume(config, saved);
    EXPECT_EQ(rest.weights, whole.weights) << kind;
    EXPECT_EQ(rest.state, whole.state) << kind;
    EXPECT_EQ(rest.losses.back(), whole.losses.back()) << kind;
    // Two ranks without sets of shards, zero = 0, exchange as two sets of two: of the same names.
    Config flat = config;
    flat.parallel.dp = 2;
    flat.parallel.zero_stage = flat.parallel.shard_degree = 0;
    const VerifyRun two = resume(flat, saved);
    EXPECT_NEAR(two.losses.back(), whole.losses.back(), 1e-4 * whole.losses.back()) << kind;
  }
}

// What is owed to each tensor, over all ranks that a checkpoint names.
std::map<std::string, double> owed_in_checkpoint(const std::string& folder) {
  const Checkpoint checkpoint = Checkpoint::open(system_env(), folder);
  std::map<std::string, double> sums;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (!entry.name.starts_with("error_feedback.")) continue;
    std::vector<float> values(static_cast<size_t>(entry.shape.numel()));
    checkpoint.read(entry.name, values.data());
    for (const float value : values) sums[entry.name.substr(entry.name.find('.', 15))] += double{value};
  }
  return sums;
}

TEST(HybridCompression, OtherNumbersOfSetsOweTheSame) {
  const Config config = in_sets(compressed_blocks("int8"), 6, 2);
  SavedRun saved = save_after(config, 3, "hybrid_compression");
  const auto before = owed_in_checkpoint(saved.folder);
  ASSERT_FALSE(before.empty());
  for (const auto& [dp, shard] : {std::pair(4, 2), {6, 3}, {2, 0}}) {
    Config other = in_sets(compressed_blocks("int8"), dp, shard);
    other.train.steps = 0;
    const std::string folder = saved.folder + "_again";
    std::filesystem::remove_all(folder);
    resume(other, saved, [&](Training& training, TrainState& state, World& world) {
      save_run(training, state, world, folder);
    });
    const auto after = owed_in_checkpoint(folder);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sum] : before)
      EXPECT_NEAR(after.at(name), sum, 1e-5) << name << " " << dp << " in " << shard;
  }
}

TEST(HybridCompression, PipelinesKeepTheBits) {
  for (const char* kind : kCodesOfSets)
    for (const int zero : {1, 2}) {
      const char* family = zero == 1 ? "gpt2" : "llama";
      Config config = in_sets(compressed_blocks(kind, family), 4, 2, zero);
      const VerifyRun flat = run_layout(config);
      config.parallel.pp = 2;
      const VerifyRun run = run_layout(config);
      EXPECT_EQ(run.losses, flat.losses) << kind << " " << family;
      EXPECT_EQ(run.weights, flat.weights) << kind << " " << family;
    }
}

TEST(HybridCompression, BucketsAndWarmupAreAsEver) {
  for (const char* kind : kCodesOfSets) {
    Config config = in_sets(compressed_blocks(kind), 4, 2);
    const VerifyRun many = run_layout(config);
    config.parallel.bucket_bytes = 16 << 20;
    EXPECT_EQ(run_layout(config).weights, many.weights) << kind;
    config.compression.warmup_steps = config.train.steps;
    Config plain = config;
    plain.compression.method = "none";
    const VerifyRun exact = run_layout(plain);
    EXPECT_EQ(run_layout(config).weights, exact.weights) << kind;
    config.compression.warmup_steps = 2;
    EXPECT_NE(run_layout(config).weights, exact.weights) << kind;
  }
}

// Nobody is there to exchange anything with.
TEST(HybridCompression, OfOneSetIsNone) {
  for (const int zero : {1, 2, 3}) {
    Config config = in_sets(compressed_blocks("int8"), 4, 4, zero), plain = config;
    plain.compression.method = "none";
    EXPECT_TRUE(compare(run_layout(config), run_layout(plain)).bitwise) << zero;
  }
}

// With what else cuts a model, and the groups of two speeds: near what is not compressed.
TEST(HybridCompression, GoesWithTheOtherAxes) {
  const auto near_plain = [](const char* what, const Config& config) {
    Config plain = config;
    plain.compression.method = "none";
    const VerifyRun run = run_layout(config), exact = run_layout(plain);
    EXPECT_EQ(run.losses[0], exact.losses[0]) << what;
    EXPECT_NEAR(run.losses.back(), exact.losses.back(), 0.002 * exact.losses.back()) << what;
    EXPECT_NE(run.weights, exact.weights) << what << ": nothing was compressed";
    EXPECT_TRUE(compare(run_layout(config), run).bitwise) << what << ", again";
  };
  for (const char* kind : kCodesOfSets) {
    Config context = in_sets(compressed_blocks(kind), 4, 2, 3),
           experts = in_sets(compressed_blocks(kind, "moe"), 4, 2, 2);
    context.parallel.cp = 2;
    near_plain("cp", context);
    experts.model.num_experts = 8;
    experts.parallel.ep = 2;
    near_plain("ep", experts);
    Config tensor = in_sets(compressed_blocks(kind), 4, 2);
    tensor.parallel.tp = 2;
    near_plain("tp", tensor);
    Config both = in_sets(compressed_blocks(kind, "moe"), 4, 2, 2);
    both.parallel.tp = 2;
    near_plain("experts and tp", both);
    Config two = in_sets(compressed_blocks(kind), 8, 2, 3);
    two.local_sgd.sync_interval = 2;
    two.local_sgd.group_size = 4;
    near_plain("two speeds", two);
  }
}

// Codes that go to the neighbour of the same set, not to the rank with the same share.
TEST(HybridCompression, AnExchangeWithTheWrongRanksIsCaught) {
  for (const char* kind : kCodesOfSets) {
    const Config config = in_sets(compressed_blocks(kind), 4, 2);
    const VerifyRun truth = run_layout(config);
    EXPECT_TRUE(is_caught(config, truth,
                          {.lay_out =
                               [](Training& training, Mesh& mesh) {
                                 ReplicaGroups groups =
                                     make_replica_groups(mesh.world(), mesh.shape(), 2, "set of shards");
                                 groups.across =
                                     make_replica_groups(mesh.world(), mesh.shape(), 2, "neighbours").inner;
                                 training.share_shards(std::move(groups));
                               }},
                          1e-4))
        << kind;
  }
}

}  // namespace
}  // namespace athanor::tests::hybrid_compression_test
