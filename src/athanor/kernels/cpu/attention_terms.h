// Rows of terms of scores (kernels/attention_scores.h): of one query and keys [key, key + keys) of a block of 64. Generic
// code that the kernels of all instruction sets call, so that a draw is the same on each. Thread rule: pure functions.
#pragma once

#include "athanor/kernels/cpu/attention_rows.h"

namespace athanor::kernels {

struct AttentionRow {
  int64_t query, key, keys;
};

// bias[j] of key `key + j`; zeros if there is none.
void bias_row(const AttentionTerms& terms, const AttentionRow& row, float* bias);
// sums[bucket] += ds[j].
void add_bias_row(const AttentionTerms& terms, const AttentionRow& row, const float* ds, double* sums);
// 0 where dropped, or else 1 / (1 - rate).
void keep_row(const AttentionTerms& terms, const AttentionRow& row, float* factors);

}  // namespace athanor::kernels
