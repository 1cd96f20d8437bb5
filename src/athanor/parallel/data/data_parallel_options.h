// How gradients are reduced and what is sharded: the settings of a DataParallel (data_parallel.h says what they mean).
//
//   DataParallel parallel(weights, {.dense = {.sum = &group}}, arena, {.reduce = Reduce::tree, .stage = 2});
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "athanor/base/clock.h"
#include "athanor/parallel/data/bucket_exchange.h"
#include "athanor/parallel/data/bucket_file.h"
#include "athanor/parallel/data/gradients.h"

namespace athanor::parallel::data {

// The ranks that hold the parameters of one parameter group: dense ones, or those of experts (layout/groups.h).
struct GradientRanks {
  Group* sum = nullptr;        // gradients are summed over these
  Group* shard = nullptr;      // ZeRO's shards lie over these; null: over `sum`
  Group* replicate = nullptr;  // hybrid sharding: the ranks with the same shard; null: without
  // How many consecutive ranks split the tokens of one micro-batch (context parallelism). Of experts 0 if every rank has
  // micro-batches of its own, the same number on each rank.
  int parts = 1;
};
struct DataParallelRanks {
  GradientRanks dense;
  std::optional<GradientRanks> experts = {};  // none: experts have the ranks of all other parameters
};

struct DataParallelOptions {
  Reduce reduce = Reduce::fast;
  int stage = 0;             // of ZeRO
  Dtype dtype = Dtype::f32;  // T of the parameters in computation
  int64_t bucket_bytes = 16 << 20;
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of comm_seconds()
  // The micro-batches of a step that these ranks take: part `step_part` of `num_step_parts` consecutive ones (local SGD:
  // each replica group has a part).
  int step_part = 0, num_step_parts = 1;
  // How buckets are exchanged if not as they are. Needs Reduce::fast and several ranks.
  ExchangeMaker exchange = {};
  // Pipeline: weights with different numbers are in different buckets, since their gradients complete at different
  // times.
  std::function<int(const Weight&)> section = {};
  // Offload: where gradients, and the parameters of stage 3, lie on disk (bucket_file.h).
  DiskPlace gradients_place = {}, values_place = {};
};

}  // namespace athanor::parallel::data
