// Compressed gradients between shard groups (hybrid sharding): what is sent and kept, and faults that must show.
// compression_test.cpp holds what is computed against its definition; the other axes, checkpoints and plans are rows of
// train/layouts.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "athanor/engine/compression_state.h"
#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/saved_run.h"

namespace athanor::tests::hybrid_compression_test {
namespace {

const char* const kKinds[] = {"bf16", "int8"};

Config in_groups(const std::string& kind, const std::string& family, int64_t dp, int64_t shard,
                 int64_t zero = 1) {
  return in_axes(compressed_blocks(kind, family), {.dp = dp, .zero = zero, .shard = shard});
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
  for (const char* kind : kKinds)
    for (const auto& [dp, shard, zero] :
         {std::tuple(4, 2, 1), {6, 3, 1}, {6, 2, 1}, {4, 2, 2}, {6, 3, 2}, {6, 2, 2}}) {
      SCOPED_TRACE(fmt::format("{} dp {} in groups of {}, zero {}", kind, dp, shard, zero));
      const Config config = in_groups(kind, "gpt2", dp, shard, zero);
      const auto expect_bytes = [&](Training& training, TrainState&, World& world) {
        finish_gathers(training, config);
        const Wire wire(config, training, world.rank());
        const Group *inner = training.groups().dense.shard, *across = training.groups().dense.replicate;
        EXPECT_EQ(across->traffic().total().bytes, config.train.steps * wire.across)
            << "rank " << world.rank();
        const Traffic inside = inner->traffic();
        const int64_t gathered = inside.of(Collective::all_gather).bytes,
                      norms = inside.of(Collective::all_reduce).bytes;
        // Values are gathered before the first step, too.
        EXPECT_EQ(inside.total().bytes - norms - gathered / (config.train.steps + 1),
                  config.train.steps * wire.inside)
            << "rank " << world.rank();
      };
      run_layout(config, {.end = expect_bytes});
    }
}

// What is owed is shared out like the rest: all residuals of a group are of one copy of the matrices.
TEST(HybridCompression, ResidualsAreSharedOutInAGroup) {
  for (const char* kind : kKinds) {
    const Config config = in_groups(kind, "llama", 6, 3, 2);
    std::atomic<int64_t> sent = 0, of_sum = 0, matrices = 0;
    run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
                 for (const ExchangeState& state : training.role->exchange_states())
                   (state.prefix(state.rank).starts_with("server_error.") ? of_sum : sent) +=
                       state.range.count();
                 if (world.rank() > 0) return;
                 for (const auto& param : training.model->params())
                   if (is_compressed(*param, compression_of(config))) matrices += param->numel();
               }});
    EXPECT_EQ(sent, 2 * matrices) << kind << ": of two groups";
    EXPECT_EQ(of_sum, matrices) << kind;
  }
}

// Two ranks without shard groups, zero = 0, exchange as two groups of two do: residuals have the same names.
TEST(HybridCompression, GoesOnWithoutShardGroups) {
  for (const auto& [kind, zero] : {std::pair("bf16", 2), {"int8", 1}, {"int8", 3}}) {
    const Config config = in_groups(kind, "gpt2", 4, 2, zero);
    const VerifyRun whole = run_layout(config),
                    two = resume(in_groups(kind, "gpt2", 2, 0, 0), save_after(config, 2));
    EXPECT_NEAR(two.losses.back(), whole.losses.back(), 1e-4 * whole.losses.back()) << kind;
  }
}

TEST(HybridCompression, OtherNumbersOfGroupsOweTheSame) {
  const auto of = [](int64_t dp, int64_t shard) {
    Config config = in_groups("int8", "llama", dp, shard, shard > 0 ? 1 : 0);
    config.train.steps = 3;
    return config;
  };
  const SavedRun saved = save_after(of(6, 2), 3);
  const auto before = owed(saved.run.state);
  ASSERT_FALSE(before.empty());
  for (const auto& [dp, shard] : {std::pair(4, 2), {6, 3}, {2, 0}}) {
    const auto after = owed(resume(of(dp, shard), saved).state);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sum] : before)
      EXPECT_NEAR(after.at(name), sum, 1e-5) << name << " " << dp << " in " << shard;
  }
}

// What is sent goes to the neighbour of the same group, not to the rank with the same share.
TEST(HybridCompression, AnExchangeWithTheWrongRanksIsCaught) {
  for (const char* kind : kKinds) {
    const Config config = in_groups(kind, "llama", 4, 2);
    const auto wrong = [](Groups& groups) { groups.dense.replicate = groups.dense.shard; };
    EXPECT_TRUE(is_caught(config, run_layout(config), {.groups = wrong}, 1e-4)) << kind;
  }
}

}  // namespace
}  // namespace athanor::tests::hybrid_compression_test
