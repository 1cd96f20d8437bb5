// Options of gradient compression: docs/compression.md has the formulas of each method, and advice.
//
//   CompressionOptions options{.kind = Compression::topk, .ratio = 0.01};
//
// Thread rule: plain values.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::parallel::compression {

enum class Compression { none, bf16, int8, topk, powersgd, onebit_adam };

struct CompressionOptions {
  Compression kind = Compression::none;
  double ratio = 0.01;         // topk: the fraction of elements that is sent
  int64_t rank = 4;            // powersgd: of the factors
  int64_t warmup_updates = 0;  // the first updates are not compressed (1-bit Adam: freeze step)
  bool error_feedback = true;
  uint64_t seed = 1;  // powersgd: for the initial factors
};

}  // namespace athanor::parallel::compression
