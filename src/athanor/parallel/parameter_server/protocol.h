// The protocol between workers and parameter servers (M. Li et al., "Scaling distributed machine learning with the
// parameter server", 2014): roles of ranks, and all messages as values. docs/parallelism.md has the bytes.
//
//   ServerRoles roles{.workers = 6, .servers = 2};   // of 8 ranks: 0 ... 5 are workers, 6 and 7 servers
//
// Parameters are partitioned as in ZeRO (buckets.h, shard_layout.h): server k has row k of every bucket, with its
// optimizer state. In each step a worker pushes to every server
//
//   sync               for each bucket, once the backward pass has completed it, the server's row of each partial sum
//                      that the worker holds ("gradients B", f32); then the header ("push", i64[8])
//   bounded, async     the header, then for each bucket the row of the sum of its micro-batches
//
// and to server 0, after the header, the sums of its losses ("losses", f64). Compressed rows: coded_push.h. With load
// balancing, worker 0 first tells each server how many micro-batches each data-parallel rank takes from this step on
// ("micro-batches per rank", i64[W / parts]).
// When a worker may go on, every server answers it (the pull): the header ("answer", i64[8]), from server 0 the losses
// of all pushes since the worker's last answer, and the server's row of every bucket's parameters ("parameters B", T).
// Before the first step there is an answer without a push.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "athanor/comm/group.h"
#include "athanor/parallel/compression/compression.h"
#include "athanor/parallel/data/buckets.h"
#include "athanor/parallel/data/gradients.h"

namespace athanor::parallel::parameter_server {

enum class Consistency {
  sync,     // a step's gradients are summed and make one update, as in data parallelism
  bounded,  // each push is an update; a worker is at most `staleness` steps ahead of the slowest (SSP)
  async,    // each push is an update; no worker waits for another
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
  int parts = 1;  // context parallelism: consecutive workers that split the tokens of one micro-batch
  Consistency consistency = Consistency::sync;
  int64_t staleness = 0;  // for `bounded`
  Reduce reduce = Reduce::fast;
  Dtype dtype = Dtype::f32;  // T of the parameters in computation
  int64_t bucket_bytes = 16 << 20;
  int64_t num_micro_batches = 1;  // micro-batches in a step, all workers together
  int64_t num_losses = 1;         // f64 numbers
  // Load balancing (sync, Reduce::tree): after every so many steps, but not at a start, worker 0 sends "shares of
  // micro-batches" before the next step. 0: micro-batches are split evenly.
  int64_t balance_every = 0;
  CompressionOptions compression = {};  // bf16 or int8; the first warmup_updates steps are not compressed
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
  bool commit = false;      // global barrier: no worker goes on from this step before all have pushed it
  bool stop_here = false;   // the run ends at this commit
  bool wants_stop = false;  // this rank was asked to stop
  double tokens = 0.0;
  double grad_scale = 0.0;  // bounded, async: factor from the sums to the clipped mean over the tokens
  double loss_scale = 1.0;  // factor in the gradients
  bool overflowed = false;  // bounded, async: the gradients are not finite

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
  int64_t step = 0;         // the pushed step that this answers
  int64_t version = 0;      // updates applied to the parameters
  int64_t staleness = 0;    // steps that the slowest worker is behind
  int64_t stop_step = 0;    // server 0: the last step of all workers; 0: not known. In sync: this step or 0
  int64_t tokens = 0;       // pushed so far in the whole run
  double grad_norm = 0.0;   // sync: of the mean gradient, before clipping
  double loss_scale = 1.0;  // server 0: for the worker's next step
  int64_t good_steps = 0;   // steps without overflow at that loss scale

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

}  // namespace athanor::parallel::parameter_server
