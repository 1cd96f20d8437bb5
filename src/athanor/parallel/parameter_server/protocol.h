// What workers and parameter servers say to each other (M. Li et al., "Scaling distributed machine learning with the
// parameter server", 2014): all messages as values, and who is who. docs/parallelism.md has the bytes.
//
//   ServerRoles roles{.workers = 6, .servers = 2};   // of 8 ranks: 0 ... 5 work, 6 and 7 serve
//
// Parameters are cut as ZeRO cuts them (buckets.h, shard_layout.h): of every bucket, server k has row k, with the
// optimizer's state of it. In every step a worker sends each server
//
//   sync               for each bucket, as the backward pass completes it, the server's row of each sum of grains
//                      that the worker holds ("gradients B", f32); then the header ("push", i64[8])
//   bounded, async     the header, then the row of the sum of its grains for each bucket
//
// and server 0 the sums of its losses after the header ("losses", f64). Compressed rows are coded_push.h's. With grains by
// speed worker 0 says to each server before such a step how many grains each of dp takes from it on ("shares of grains",
// i64[W / parts]). A worker gets from each, when it may go on, the header ("answer", i64[8]), from server 0 the losses of
// all that was pushed since its last answer, and the server's row of every bucket's values ("parameters B", T). Before the
// first step there is an answer without a push.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "athanor/comm/group.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/compression.h"
#include "athanor/parallel/gradient_sum.h"

namespace athanor {

enum class Consistency {
  sync,     // a step's gradients are summed and make one update: data parallelism
  bounded,  // each push is an update; a worker is at most `staleness` steps ahead of the slowest
  async,    // each push is an update; nobody waits
};

struct ServerRoles {
  int workers = 1, servers = 1;
  int size() const { return workers + servers; }
  bool is_server(int rank) const { return rank >= workers; }
  int rank_of_server(int server) const { return workers + server; }
};

// The same on all ranks.
struct ServerSettings {
  ServerRoles roles;
  int parts = 1;  // so many neighbouring workers compute one grain, each its tokens (context parallelism)
  Consistency consistency = Consistency::sync;
  int64_t staleness = 0;  // of bounded
  Reduce reduce = Reduce::fast;
  Dtype dtype = Dtype::f32;  // T of the values
  int64_t bucket_bytes = 16 << 20;
  int64_t num_grains = 1;  // of a step, all workers together
  int64_t num_losses = 1;  // f64 numbers
  // sync, tree: before each step after a multiple of it, but the first one of a start, worker 0 sends shares of grains.
  int64_t balance_every = 0;            // 0: they stay even
  CompressionOptions compression = {};  // bf16 or int8; whole in the worker's first warmup_updates steps
  bool codes(int64_t step) const {
    return compression.kind != Compression::none && step > compression.warmup_updates;
  }
  bool scales_loss() const { return dtype == Dtype::f16; }  // gradients may overflow: such a push is skipped
  BucketOptions buckets() const {
    return {.rows = roles.servers,
            .bucket_bytes = bucket_bytes,
            .by_unit = false,
            .uses_apart = true,
            .section = {}};
  }
};

using Words = std::array<int64_t, 8>;

struct PushHeader {
  int64_t step = 0;         // the worker's, from 1
  bool commit = false;      // nobody goes on from this step before all have pushed it
  bool stop_here = false;   // and the run stops there
  bool wants_stop = false;  // this rank was asked to stop
  double tokens = 0.0;
  double grad_scale = 0.0;  // bounded, async: to the mean over the tokens, clipped
  double loss_scale = 1.0;  // that the gradients have
  bool overflowed = false;  // bounded, async: they are not finite

  Words words() const {
    return {step,
            commit,
            stop_here,
            wants_stop,
            std::bit_cast<int64_t>(tokens),
            std::bit_cast<int64_t>(grad_scale),
            std::bit_cast<int64_t>(loss_scale),
            overflowed};
  }
  static PushHeader of(const Words& w) {
    return {.step = w[0],
            .commit = w[1] != 0,
            .stop_here = w[2] != 0,
            .wants_stop = w[3] != 0,
            .tokens = std::bit_cast<double>(w[4]),
            .grad_scale = std::bit_cast<double>(w[5]),
            .loss_scale = std::bit_cast<double>(w[6]),
            .overflowed = w[7] != 0};
  }
};

struct AnswerHeader {
  int64_t step = 0;         // that this answers
  int64_t version = 0;      // updates that the parameters have seen
  int64_t staleness = 0;    // steps that the slowest worker is behind
  int64_t stop_step = 0;    // server 0: at which all will stop; 0: not known. In sync: this step or none
  int64_t tokens = 0;       // pushed so far in the whole run
  double grad_norm = 0.0;   // sync: of the mean gradient, before clipping
  double loss_scale = 1.0;  // server 0: for what the worker computes next
  int64_t good_steps = 0;   // that it has seen

  Words words() const {
    return {step,
            version,
            staleness,
            stop_step,
            tokens,
            std::bit_cast<int64_t>(grad_norm),
            std::bit_cast<int64_t>(loss_scale),
            good_steps};
  }
  static AnswerHeader of(const Words& w) {
    return {.step = w[0],
            .version = w[1],
            .staleness = w[2],
            .stop_step = w[3],
            .tokens = w[4],
            .grad_norm = std::bit_cast<double>(w[5]),
            .loss_scale = std::bit_cast<double>(w[6]),
            .good_steps = w[7]};
  }
};

}  // namespace athanor
