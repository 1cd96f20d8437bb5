#include <cmath>
#include <limits>

#include "athanor/kernels/cpu/attention_heads.h"

namespace athanor::kernels {
namespace {

// Queries of one work item. With more queries keys are packed less often, but the sums must fit the second-level cache.
// Results do not depend on it.
int64_t query_tile(int64_t heads, int64_t queries, int64_t head_dim) {
  constexpr int64_t kSumsNearby = 1024 * 64;
  int64_t tile = kAttentionBlock;
  while (tile < queries && 2 * tile * head_dim <= kSumsNearby) tile *= 2;
  while (tile > 64 && heads * num_blocks(queries, tile) < kEnoughItems) tile /= 2;
  return tile;
}

void forward(Queue& queue, Tensor& o, Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
             float scale, const AttentionPart& part) {
  const char* kernel = "attention.forward";
  const AttentionSizes s = check_attention(kernel, q, k, v, part);
  const AttentionRows& rows = attention_rows(queue, row_type(kernel, q), &AttentionRows::forward, s, part);
  expect(kernel, "o", o, {s.batch, s.all_queries, s.heads, s.value_dim}, q.dtype());
  expect(kernel, "lse", lse, {s.batch, s.heads, s.all_queries}, Dtype::f32);
  const AttentionProblems problems(kernel, queue, s, part, q, scale);
  const int64_t heads = s.batch * s.heads;
  const int64_t tile = query_tile(heads, s.queries, s.widest()), tiles = num_blocks(s.queries, tile);
  const Meter::Call call = metered(queue, kernel, attention_flops(s, part, 1, 1), bytes_of(o, q, k, v));
  AttentionLanes lanes(queue, q.arena(), heads * tiles, rows.forward_floats(s.widest(), tile));
  lanes.run(heads * tiles, [&](int64_t item, float* scratch) {
    const int64_t first = (tiles - 1 - item / heads) * tile;  // the last see the most keys: long items first
    const int64_t batch = item % heads / s.heads, head = item % heads % s.heads;
    rows.forward(at(o, s.output_at(batch, head)), lse.data<float>() + s.row_at(batch, head),
                 at(q, s.query_at(batch, head)), at(k, s.key_at(batch, head)), at(v, s.value_at(batch, head)),
                 problems.of(batch, head), first, std::min(tile, s.queries - first), scratch);
  });
}

float weight_of(float lse, float total) {
  return lse == -std::numeric_limits<float>::infinity() ? 0.0f : std::exp(lse - total);
}

template <typename T>
void merge_row(float* sum, const void* o, float before, float after, int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    sum[i] = before * sum[i] + after * to_float(static_cast<const T*>(o)[i]);
}

void merge(Queue& queue, Tensor& sum, Tensor& lse, const Tensor& o, const Tensor& o_lse, int64_t first,
           int64_t count) {
  const char* kernel = "attention.merge";
  const RowType type = row_type(kernel, o);
  check(o.shape().dims() == 4, "{}: o is {}, expected [B,T,H,D]", kernel, o.shape());
  const int64_t batch = o.dim(0), length = o.dim(1), heads = o.dim(2), width = o.dim(3);
  rows_of_part(kernel, "queries", first, count, length);
  expect(kernel, "sum", sum, o.shape(), Dtype::f32);
  expect(kernel, "lse", lse, {batch, heads, length}, Dtype::f32);
  expect(kernel, "o_lse", o_lse, lse.shape(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 3 * flops_of(o), 2 * bytes_of(sum) + bytes_of(o));
  for_blocks(queue, batch * count, rows_per_block(heads * width), [&](int64_t begin, int64_t rows) {
    for (int64_t i = begin; i < begin + rows; ++i)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t b = i / count, t = first + i % count;
        float& mine = lse.data<float>()[(b * heads + head) * length + t];
        const float other = o_lse.data<float>()[(b * heads + head) * length + t];
        const float top = std::max(mine, other);
        const float total =
            std::isinf(top) && top < 0 ? top : top + std::log(std::exp(mine - top) + std::exp(other - top));
        const int64_t element = ((b * length + t) * heads + head) * width;
        const auto merged = type == kF32    ? merge_row<float>
                            : type == kBf16 ? merge_row<Bf16>
                                            : merge_row<F16>;
        merged(sum.data<float>() + element, at(o, element), weight_of(mine, total), weight_of(other, total),
               width);
        mine = total;
      }
  });
}

template <typename T>
void scale_row(void* x, float factor, int64_t width) {
  T* row = static_cast<T*>(x);
  for (int64_t i = 0; i < width; ++i) row[i] = from_float<T>(factor * to_float(row[i]));
}

void add_sinks(Queue& queue, Tensor& o, Tensor& lse, const Tensor& sinks) {
  const char* kernel = "attention.add_sinks";
  const RowType type = row_type(kernel, o);
  check(o.shape().dims() == 4, "{}: o is {}, expected [B,T,H,E]", kernel, o.shape());
  const int64_t length = o.dim(1), heads = o.dim(2), width = o.dim(3);
  expect(kernel, "lse", lse, {o.dim(0), heads, length}, Dtype::f32);
  expect(kernel, "sinks", sinks, {heads}, Dtype::f32);
  const Meter::Call call = metered(queue, kernel, flops_of(o), 2 * bytes_of(o));
  const auto scale = type == kF32 ? scale_row<float> : type == kBf16 ? scale_row<Bf16> : scale_row<F16>;
  for_blocks(queue, o.dim(0) * length, rows_per_block(heads * width), [&](int64_t begin, int64_t rows) {
    for (int64_t i = begin; i < begin + rows; ++i)
      for (int64_t head = 0; head < heads; ++head) {
        float& mine = lse.data<float>()[(i / length * heads + head) * length + i % length];
        const float sink = sinks.data<float>()[head], top = std::max(mine, sink);
        if (std::isinf(sink) && sink < 0) continue;
        const float total = top + std::log(std::exp(mine - top) + std::exp(sink - top));
        scale(at(o, (i * heads + head) * width), weight_of(mine, total), width);
        mine = total;
      }
  });
}

void sinks_backward(Queue& queue, Tensor& d_sinks, const Tensor& d_o, const Tensor& o, const Tensor& lse,
                    const Tensor& sinks) {
  const char* kernel = "attention.sinks_backward";
  check(o.shape().dims() == 4, "{}: o is {}, expected [B,T,H,E]", kernel, o.shape());
  const int64_t batch = o.dim(0), length = o.dim(1), heads = o.dim(2);
  expect(kernel, "d_o", d_o, o.shape(), o.dtype());
  expect(kernel, "lse", lse, {batch, heads, length}, Dtype::f32);
  expect(kernel, "sinks", sinks, {heads}, Dtype::f32);
  expect(kernel, "d_sinks", d_sinks, {heads}, Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 2 * flops_of(o), bytes_of(d_o, o));
  const Tensor delta = output_products(queue, d_o, o);
  queue.parallel_for(heads, [&](int64_t head) {
    double sum = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < length; ++t) {
        const int64_t row = (b * heads + head) * length + t;
        const float total = lse.data<float>()[row];
        sum += double{weight_of(sinks.data<float>()[head], total)} * double{delta.data<float>()[row]};
      }
    d_sinks.data<float>()[head] -= static_cast<float>(sum);
  });
}

}  // namespace

const AttentionKernels cpu_attention{forward, attention_backward, merge, add_sinks, sinks_backward};

}  // namespace athanor::kernels
