#include "athanor/kernels/cpu/attention_terms.h"

#include <cmath>
#include <limits>

#include "athanor/base/philox.h"
#include "athanor/kernels/cpu/attention_heads.h"

namespace athanor::kernels {
namespace {

int64_t bucket(const AttentionTerms& terms, const AttentionRow& row, int64_t j) {
  const int64_t distance = int64_t{terms.key_positions[row.key + j]} - terms.query_positions[row.query];
  return terms.bucket_of == nullptr ? distance + terms.reach : terms.bucket_of[distance + terms.reach];
}

int64_t count_of(const std::vector<PositionRun>& runs) {
  int64_t count = 0;
  for (const PositionRun& run : runs) count += run.count;
  return count;
}

void check_bias(const char* kernel, const Queue& queue, const AttentionScores& scores,
                const AttentionSizes& s) {
  const Tensor& bias = *scores.bias;
  check(bias.shape().dims() == 2, "{}: bias is {}, expected [H, buckets]", kernel, bias.shape());
  expect(kernel, "bias", bias, {s.heads, bias.dim(1)}, Dtype::f32);
  if (scores.d_bias != nullptr) expect(kernel, "d_bias", *scores.d_bias, bias.shape(), Dtype::f32);
  const bool listed = scores.bucket_of != nullptr;
  if (listed) expect_count(kernel, "bucket_of", *scores.bucket_of, scores.bucket_of->numel(), Dtype::i32);
  const int64_t distances = listed ? scores.bucket_of->numel() : bias.dim(1);
  check(distances % 2 == 1, "{}: got a bias of {} distances, expected 2n - 1", kernel, distances);
  if (!listed || !on_cpu(queue)) return;
  for (int64_t d = 0; d < distances; ++d) {
    const int32_t at = scores.bucket_of->data<int32_t>()[d];
    check(at >= 0 && at < bias.dim(1), "{}: bucket_of[{}] is {}, expected one of {} buckets", kernel, d, at,
          bias.dim(1));
  }
}

void check_dropout(const char* kernel, const AttentionDropout& dropout, const AttentionSizes& s) {
  check(dropout.rate >= 0 && dropout.rate < 1, "{}: got a dropout rate of {}, expected 0 <= rate < 1", kernel,
        dropout.rate);
  if (dropout.rate == 0) return;
  check(dropout.first_head >= 0 && dropout.first_head + s.heads <= dropout.heads,
        "{}: got dropout for heads {} to {} of {}, expected them within the layer's heads", kernel,
        dropout.first_head, dropout.first_head + s.heads, dropout.heads);
}

}  // namespace

void bias_row(const AttentionTerms& terms, const AttentionRow& row, float* bias) {
  for (int64_t j = 0; j < row.keys; ++j)
    bias[j] = terms.bias == nullptr ? 0 : terms.bias[bucket(terms, row, j)];
}

void add_bias_row(const AttentionTerms& terms, const AttentionRow& row, const float* ds, double* sums) {
  for (int64_t j = 0; j < row.keys; ++j) sums[bucket(terms, row, j)] += static_cast<double>(ds[j]);
}

void keep_row(const AttentionTerms& terms, const AttentionRow& row, float* factors) {
  if (terms.drop_rate == 0) {
    std::fill_n(factors, row.keys, 1.0f);
    return;
  }
  const RandomStream stream(terms.drop_key);
  const float kept = 1 / (1 - terms.drop_rate);
  const uint64_t first =
      terms.drop_first + static_cast<uint64_t>(terms.query_positions[row.query] * terms.drop_row);
  Philox4 words{};
  uint64_t block = std::numeric_limits<uint64_t>::max();
  for (int64_t j = 0; j < row.keys; ++j) {
    const uint64_t element = first + static_cast<uint64_t>(terms.key_positions[row.key + j]);
    if (element / 4 != block) {
      block = element / 4;
      words = stream.block(block, terms.drop_step);
    }
    factors[j] = static_cast<float>(words[element % 4] >> 8) * 0x1p-24f >= terms.drop_rate ? kept : 0;
  }
}

HeadTerms::HeadTerms(const char* kernel, const Queue& queue, const AttentionSizes& s,
                     const AttentionPart& part, Arena& arena)
    : dropout_(part.scores->dropout) {
  const AttentionScores& scores = *part.scores;
  check(scores.softcap >= 0, "{}: got a softcap of {}, expected it positive, or 0 for none", kernel,
        scores.softcap);
  check(scores.d_bias == nullptr || scores.bias != nullptr, "{}: got a gradient of no bias, expected a bias",
        kernel);
  if (scores.bias != nullptr) check_bias(kernel, queue, scores, s);
  check_dropout(kernel, dropout_, s);
  if (std::isfinite(scores.softcap)) all_.softcap = scores.softcap;
  all_.drop_rate = dropout_.rate;
  all_.drop_key = dropout_.key;
  all_.drop_step = dropout_.step;
  all_.drop_row = dropout_.whole_keys;
  pairs_ = dropout_.whole_queries * dropout_.whole_keys;
  if (scores.bias != nullptr) {
    buckets_ = scores.bias->dim(1);
    all_.bias = static_cast<const float*>(scores.bias->raw());
    if (scores.bucket_of != nullptr) all_.bucket_of = static_cast<const int32_t*>(scores.bucket_of->raw());
    all_.reach = (scores.bucket_of == nullptr ? buckets_ : scores.bucket_of->numel()) / 2;
  }
  if (scores.bias == nullptr && dropout_.rate == 0) return;

  MaskPositions positions = scores.positions;
  if (positions.queries.empty()) positions.queries = {{part.causal ? s.keys - s.queries : 0, s.queries}};
  if (positions.keys.empty()) positions.keys = {{0, s.keys}};
  check(count_of(positions.queries) == s.queries && count_of(positions.keys) == s.keys,
        "{}: got positions of {} queries and {} keys, expected {} and {}", kernel,
        count_of(positions.queries), count_of(positions.keys), s.queries, s.keys);
  positions_ = empty(arena, {s.queries + s.keys}, Dtype::i32, Category::workspace);
  if (on_cpu(queue)) {
    all_.query_positions = positions_.data<int32_t>();
    all_.key_positions = all_.query_positions + s.queries;
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t least[2] = {kMost, kMost}, most[2] = {-1, -1}, row = 0;
  for (const int side : {0, 1})
    for (const PositionRun& run : side == 0 ? positions.queries : positions.keys) {
      if (run.count == 0) continue;
      least[side] = std::min(least[side], run.first);
      most[side] = std::max(most[side], run.first + run.count - 1);
      for (int64_t i = 0; on_cpu(queue) && i < run.count; ++i)
        positions_.data<int32_t>()[row++] = static_cast<int32_t>(run.first + i);
    }
  if (most[0] < 0 || most[1] < 0) return;
  check(scores.bias == nullptr || std::max(most[1] - least[0], most[0] - least[1]) <= all_.reach,
        "{}: got positions {} to {} of queries and {} to {} of keys, expected distances below {}, which the "
        "bias has",
        kernel, least[0], most[0], least[1], most[1], all_.reach + 1);
  check(dropout_.rate == 0 || (most[0] < dropout_.whole_queries && most[1] < dropout_.whole_keys),
        "{}: got positions to {} of queries and {} of keys, expected them within dropout's {} and {}", kernel,
        most[0], most[1], dropout_.whole_queries, dropout_.whole_keys);
}

AttentionTerms HeadTerms::of(int64_t batch, int64_t head) const {
  AttentionTerms terms = all_;
  if (terms.bias != nullptr) terms.bias += head * buckets_;
  terms.drop_first = static_cast<uint64_t>(
      ((dropout_.first_sequence + batch) * dropout_.heads + dropout_.first_head + head) * pairs_);
  return terms;
}

BiasSums::BiasSums(const Queue& queue, const AttentionSizes& s, const AttentionPart& part, int64_t key_blocks,
                   Arena& arena) {
  if (part.scores == nullptr || part.scores->d_bias == nullptr) return;
  d_bias_ = part.scores->d_bias;
  batch_ = s.batch;
  heads_ = s.heads;
  blocks_ = key_blocks;
  buckets_ = d_bias_->dim(1);
  constexpr int64_t kFloats = sizeof(double) / sizeof(float);
  sums_ = empty(arena, {batch_ * heads_ * blocks_, buckets_ * kFloats}, Dtype::f32, Category::workspace);
  queue.parallel_for(batch_ * heads_,
                     [&](int64_t head) { std::fill_n(of(head, 0), blocks_ * buckets_, 0.0); });
}

double* BiasSums::of(int64_t head, int64_t key_block) const {
  if (d_bias_ == nullptr) return nullptr;
  return static_cast<double*>(sums_.raw()) + (head * blocks_ + key_block) * buckets_;
}

void BiasSums::add(const Queue& queue) const {
  if (d_bias_ == nullptr) return;
  queue.parallel_for(heads_, [&](int64_t head) {
    for (int64_t i = 0; i < buckets_; ++i) {
      double sum = 0;
      for (int64_t b = 0; b < batch_; ++b)
        for (int64_t block = 0; block < blocks_; ++block) sum += of(b * heads_ + head, block)[i];
      d_bias_->data<float>()[head * buckets_ + i] += static_cast<float>(sum);
    }
  });
}

}  // namespace athanor::kernels
