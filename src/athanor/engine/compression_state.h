// Gradient compression of a run: its options from the config, and its error-feedback residuals in checkpoints.
//
//   DataParallelOptions options{.exchange = compressed_exchange(compression_of(config))};
//   add_compression(state, parallel.exchange_states());   // "error_feedback.0.USE.PARAM", ...
//   load_compression(checkpoint, parallel.exchange_states());
//
// `own` is a prefix of the names: with local SGD that of the replica group (engine/replica_groups.h), since each
// replica group has residuals of its own. Residuals belong to ranks, unlike everything else in a checkpoint. A job with
// the same number of ranks reads back the same bits. In a job with n ranks, rank r reads the sum of the residuals of
// ranks r, r + n, r + 2n, ... in this order, so the total correction that the weights still need is unchanged.
// Residuals that the checkpoint lacks (it was written with another compression) start at zero. Errors: the
// checkpoint's. Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/engine/param_slices.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/data/data_parallel.h"

namespace athanor::engine {

CompressionOptions compression_of(const Config& config);
void add_compression(std::vector<StateTensor>& tensors, const std::vector<ExchangeState>& states,
                     const std::string& own = "");
void load_compression(const TensorSource& source, const std::vector<ExchangeState>& states,
                      const std::string& own = "");

}  // namespace athanor::engine
