// How gradients cross the wire where they are not sent as they are: docs/compression.md has formulas and advice.
#pragma once

#include <cstdint>

namespace athanor {

enum class Compression { none, bf16, int8, topk, powersgd, onebit_adam };

struct CompressionOptions {
  Compression kind = Compression::none;
  double ratio = 0.01;         // topk: the share of elements that is sent
  int64_t rank = 4;            // powersgd
  int64_t warmup_updates = 0;  // the first ones are not compressed
  bool error_feedback = true;
  uint64_t seed = 1;  // powersgd: of the first factors
};

}  // namespace athanor
