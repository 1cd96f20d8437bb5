// How gradients are reduced and what is sharded: the settings of a DataParallel (data_parallel.h says what they mean).
//
//   DataParallel parallel(weights, group, arena, {.reduce = Reduce::tree, .stage = 2, .dtype = Dtype::bf16});
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>

#include "athanor/base/clock.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/data/bucket_file.h"
#include "athanor/parallel/data/gradients.h"

namespace athanor::parallel::data {

struct DataParallelOptions {
  Reduce reduce = Reduce::fast;
  int stage = 0;             // of ZeRO
  Dtype dtype = Dtype::f32;  // T of the parameters in computation
  int64_t bucket_bytes = 16 << 20;
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of comm_seconds()
  // Local SGD: `group` is replica group `replica_group` of `num_replica_groups`, over which micro-batches are partitioned first.
  int replica_group = 0, num_replica_groups = 1;
  // Needs Reduce::fast and several ranks; methods other than bf16 and int8 also stage 0 or 1 without hybrid sharding.
  CompressionOptions compression = {};
  // Pipeline: weights with different numbers are in different buckets, since their gradients complete at different
  // times.
  std::function<int(const Weight&)> section = {};
  // Experts. expert_group: the ranks with the same experts (edp), over which gradients of experts are reduced and, with
  // ZeRO, partitioned; null: as all other weights. With hybrid sharding it is one shard group, perhaps of one rank, and
  // expert_across and expert_all are the `across` and `all` of the experts.
  // expert_parts: how many consecutive ranks of expert_group split the tokens of one micro-batch; 0: every rank has
  // micro-batches of its own, the same number on each rank.
  Group* expert_group = nullptr;
  Group *expert_across = nullptr, *expert_all = nullptr;
  int expert_parts = 0;
  // Context parallelism: how many consecutive ranks of `group` split the tokens of one micro-batch.
  int parts = 1;
  Group* across = nullptr;  // hybrid sharding, as above; null: `group` has all ranks
  Group* all = nullptr;
  // Offload: where gradients, and the parameters of stage 3, lie on disk (bucket_file.h).
  DiskPlace gradients_place = {}, values_place = {};
};

}  // namespace athanor::parallel::data
