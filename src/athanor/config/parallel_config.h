// [parallel], [local_sgd], [compression], [parameter_server]: how the ranks of a run share its work.
//
//   config.parallel.tp = 2;
//   config.local_sgd.sync_interval = 10;   // DiLoCo
//
// docs/parallelism.md and docs/compression.md have pictures and traffic. config/fields_parallel.cpp says of each key
// what it does, its limits and its costs. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::config {

struct ParallelConfig {
  int64_t dp = 0;  // "auto" (0): the ranks that the other axes leave
  int64_t tp = 1, pp = 1, cp = 1, ep = 1;
  std::string cp_method = "ring";  // ring, ulysses: how attention sees the tokens of other ranks of cp
  bool sp = false;                 // sequence parallelism, within tp
  int64_t zero_stage = 0;          // ZeRO: 1 shards optimizer state, 2 also gradients, 3 also parameters
  int64_t shard_degree = 0;        // hybrid sharding (HSDP): ranks that share one set of shards; 0: all of dp
  std::string load_balance = "even";  // micro-batches of each rank: even, or by measured speed
  int64_t load_balance_every = 50;    // steps between two measurements
  std::string schedule = "1f1b";      // of the pipeline: a known name or a CSV file
  std::string schedule_csv = {};      // what is in that file, for all ranks alike; load_config reads it
  int64_t virtual_stages = 0;         // pipeline stages per rank; "auto" (0): as many as the schedule has
  std::vector<int64_t> stage_layers = {};  // blocks of each pipeline stage; empty: evenly
  std::string recompute = "none";          // none, selective, full, group:K or a list: config/recompute.h
  int64_t recompute_budget =
      0;  // bytes a rank may need; the cheapest recompute that fits is taken; 0: as above
  std::string reduce = "fast";      // fast, tree
  std::string transport = "auto";   // auto (what the environment offers), shm, gloo, mpi, nccl
  int64_t bucket_bytes = 16 << 20;  // gradient bucket
};

// Local SGD (DiLoCo): replica groups take steps of their own; their mean weights are the outer optimizer's gradient.
struct LocalSgdConfig {
  int64_t sync_interval = 0;  // steps between two outer steps; 0: all ranks reduce gradients every step
  int64_t group_size = 0;     // ranks of dp in a replica group; "auto" (0): those of a host
  double outer_lr = 0.7;      // of SGD with Nesterov momentum on the mean difference of weights
  double outer_momentum = 0.9;
  std::string compression = "none";  // none, bf16, int8: of that difference between ranks
};

// Gradients between ranks, every step: docs/compression.md.
struct CompressionConfig {
  std::string method = "none";  // none, bf16, int8, topk, powersgd, onebit-adam
  double ratio = 0.1;           // topk: the share of elements that is sent
  int64_t rank = 4;             // powersgd
  int64_t warmup_steps =
      0;  // steps without compression; where it is not set, what the method wants of train.steps
  bool error_feedback = true;  // the compression error is added to the next step's gradient
};

// The last `servers` ranks keep parameters and optimizer state; the others train.
struct ParameterServerConfig {
  int64_t servers = 0;               // 0: none, ranks reduce gradients among themselves
  std::string consistency = "sync";  // sync, bounded, async: whether an update is of all workers or of one
  int64_t staleness = 1;             // bounded: steps that a worker may be ahead of the slowest one
  std::string replay = {};           // bounded, async: the folder of recorded schedules that this run follows
};

}  // namespace athanor::config
