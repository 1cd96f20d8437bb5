// Two-speed synchronisation on the wire: the documented bytes, once in k steps.
#include <gtest/gtest.h>

#include <mutex>
#include <tuple>

#include "athanor/comm/hierarchical/hierarchical.h"
#include "support/temporary_folder.h"
#include "train/replica_group_ranks.h"

namespace athanor::tests::two_speed_traffic_test {
namespace {

// A rank whose share has B blocks sends 2 (H-1) ceil(B/H) codes a meeting.
TEST(TwoSpeedTraffic, CodesOfMeetingsAreTheDocumentedBytes) {
  for (const auto& [kind, code_bytes] : {std::pair("bf16", 512), {"int8", 260}})
    for (const auto& [ranks, group] : {std::pair(2, 1), {6, 2}, {6, 3}}) {
      Config config = replica_groups_of_ranks(3, group);
      config.local_sgd.compression = kind;
      const int64_t replica_groups = ranks / group;
      std::mutex mutex;
      train_chain(config, {{ranks, 6}}, temporary_path("two_speed_codes"),
                  [&, bytes = code_bytes, size = group, code = kind](Training& training, Group&) {
                    int64_t blocks = 0;
                    for (const auto& param : training.model->params()) blocks += (param->numel() + 255) / 256;
                    blocks = (blocks + size - 1) / size;  // of a rank's share
                    const std::lock_guard lock(mutex);
                    EXPECT_EQ(training.replica_groups().across->traffic().total().bytes,
                              2 /*meetings*/ * 2 * (replica_groups - 1) *
                                  ((blocks + replica_groups - 1) / replica_groups) * bytes)
                        << code;
                  });
    }
}

// Over the slow link a replica group sends 2 (H-1)/H 4 bytes a parameter, once in k steps.
TEST(TwoSpeedTraffic, SendsTheDocumentedBytesOncePerMeeting) {
  const auto across = [](int64_t every, int zero) {
    Config config = replica_groups_of_ranks(every, 2);
    config.train.steps = 6;
    std::mutex mutex;
    int64_t bytes = 0, calls = 0, elements = 0;
    train_chain(config, {{4, 6, zero}}, temporary_path("two_speed_bytes"), [&](Training& training, Group&) {
      const std::lock_guard lock(mutex);
      bytes += training.replica_groups().across->traffic().total().bytes;
      calls = training.replica_groups().across->traffic().total().calls;
      elements = training.model->num_params();
    });
    return std::tuple(bytes, calls, elements);
  };
  for (const int zero : {0, 1, 3}) {
    const auto [every_step, calls, params] = across(1, zero);
    EXPECT_EQ(calls, 6);
    if (zero == 0) {
      EXPECT_EQ(every_step, 6 * 2 /*replica groups*/ * 4 * params) << "2 (H-1)/H = 1";
    }
    EXPECT_EQ(std::get<0>(across(2, zero)) * 2, every_step) << zero;
    EXPECT_EQ(std::get<0>(across(3, zero)) * 3, every_step) << zero;
    EXPECT_EQ(std::get<0>(across(6, zero)) * 6, every_step) << zero;
  }
}

// The same model trained plainly over two levels of ranks crosses the slow link every step.
TEST(TwoSpeedTraffic, SendsOneKthOfWhatHierarchicalDataParallelSends) {
  constexpr int kHosts = 2, kRanks = 2, kSteps = 6;
  constexpr int64_t kLossBytes =
      kHosts * (8 * 2 * 2 + 1) * 8;  // losses and tokens by micro-batch and channel, f64: every step
  const auto slow_bytes = [&](int64_t every) {
    Config config = replica_groups_of_ranks(every, kRanks);
    config.parallel.reduce = "fast";
    config.train.steps = kSteps;
    config.model.hidden_size = 48;  // every tensor a multiple of 16 elements: buckets have no gaps
    config.model.head_dim = 12;
    config.model.intermediate_size = 64;
    std::vector<std::vector<std::unique_ptr<Group>>> inner, across, replica_groups;
    for (int h = 0; h < kHosts; ++h) {
      inner.push_back(make_thread_groups(kRanks));
      replica_groups.push_back(make_thread_groups(kRanks));
    }
    for (int i = 0; i < kRanks; ++i) {
      inner.push_back(make_thread_groups(kHosts));
      across.push_back(make_thread_groups(kHosts));
    }
    std::mutex mutex;
    int64_t bytes = 0, params = 0;
    run_ranks(make_thread_groups(kHosts * kRanks), [&](Group& own) {
      const auto h = static_cast<size_t>(own.rank() / kRanks), i = static_cast<size_t>(own.rank() % kRanks);
      HierarchicalGroup all(std::move(inner[h][i]), std::move(inner[kHosts + i][h]));
      Engine engine;
      Training training(config, 2, all, engine.arena, nullptr, nullptr);
      if (every > 0)
        training.split_replica_groups({.inner = std::move(replica_groups[h][i]),
                                       .across = std::move(across[i][h]),
                                       .experts = nullptr});
      training.allocate();
      training.model->initialize(config.train.seed);
      TrainState state = first_state(config);
      Batch batch;
      for (int64_t step = 1; step <= kSteps; ++step) {
        const std::vector<int64_t> micro_batches =
            training.parallel->micro_batches_of_step(training.num_micro_batches);
        auto micro_batch = micro_batches.begin();
        training.runner->run(state, [&]() -> const Batch& {
          batch = make_batch(config, step, *micro_batch++);
          return batch;
        });
      }
      own.barrier("done");
      const std::lock_guard lock(mutex);
      bytes += all.outer().traffic().total().bytes +
               (every > 0 ? training.replica_groups().across->traffic().total().bytes : 0);
      params = training.model->num_params();
    });
    EXPECT_EQ((bytes - kSteps * kLossBytes) % (kHosts * 4 * params), 0)
        << "2 (H-1)/H 4 bytes a parameter and host";
    return bytes - kSteps * kLossBytes;
  };
  const int64_t plain = slow_bytes(0);
  EXPECT_GT(plain, 0);
  for (const int64_t every : {1, 2, 3, 6}) EXPECT_EQ(slow_bytes(every) * every, plain) << every;
}

}  // namespace
}  // namespace athanor::tests::two_speed_traffic_test
