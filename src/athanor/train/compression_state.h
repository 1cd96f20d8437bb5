// Compression of gradients as a run's config says it, and what of it a checkpoint holds.
//
//   DataParallelOptions options{.compression = compression_of(config)};
//   add_compression(content.tensors, parallel.compression_states());   // "error_feedback.0.USE.PARAM", ...
//   load_compression(checkpoint, parallel.compression_states());
//
// `own` is put before the names: of two speeds that of the island (train/islands.h), each of which has its own.
// Residues belong to ranks, as nothing else in a checkpoint does. Read by as many ranks as wrote them they have the
// same bits; by n others, rank r takes the sum of those of ranks r, r + n, r + 2n, ... in this order, so what is owed
// to the weights stays the same. What a checkpoint does not hold (another compression wrote it) begins at zero.
// Errors: the checkpoint's.
#pragma once

#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/parallel/data_parallel.h"

namespace athanor {

CompressionOptions compression_of(const Config& config);
void add_compression(std::vector<NamedTensor>& tensors, const std::vector<CompressionState>& states,
                     const std::string& own = "");
void load_compression(const Checkpoint& checkpoint, const std::vector<CompressionState>& states,
                      const std::string& own = "");

}  // namespace athanor
