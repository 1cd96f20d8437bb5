#include <algorithm>
#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

ExpertCounts assign(Queue& queue, Tensor& places, Tensor& tokens, const Tensor& experts, int64_t num_experts,
                    std::span<const int64_t> capacity) {
  const char* kernel = "token_rows.assign";
  check(experts.defined() && experts.shape().dims() == 2, "{}: experts are {}, expected [N,K]", kernel,
        experts.shape());
  const int64_t count = experts.dim(0), chosen = experts.dim(1);
  expect(kernel, "experts", experts, experts.shape(), Dtype::i32);
  expect(kernel, "places", places, experts.shape(), Dtype::i32);
  expect(kernel, "tokens", tokens, {count * chosen}, Dtype::i32);
  check(chosen <= num_experts, "{}: got {} experts per token, expected at most {}", kernel, chosen,
        num_experts);
  check(capacity.empty() || std::ssize(capacity) == num_experts,
        "{}: got the capacity of {} experts, expected {} or none", kernel, capacity.size(), num_experts);
  for (const int64_t most : capacity)
    check(most >= 0, "{}: got a capacity of {}, expected at least 0", kernel, most);
  ExpertCounts counts;
  counts.chosen.assign(static_cast<size_t>(num_experts), 0);
  if (!on_cpu(queue)) {
    counts.chosen = counts.kept = most_rows(count, chosen, num_experts, capacity);
    return counts;
  }
  const int32_t* expert = experts.data<int32_t>();
  for (int64_t n = 0; n < count; ++n)
    for (int64_t k = 0; k < chosen; ++k) {
      const int32_t e = expert[n * chosen + k];
      check(e >= 0 && e < num_experts, "{}: got expert {} for token {}, expected 0 <= expert < {}", kernel, e,
            n, num_experts);
      for (int64_t other = 0; other < k; ++other)
        check(expert[n * chosen + other] != e, "{}: token {} chose expert {} twice", kernel, n, e);
      ++counts.chosen[static_cast<size_t>(e)];
    }
  counts.kept = counts.chosen;
  for (size_t e = 0; e < capacity.size(); ++e) counts.kept[e] = std::min(counts.kept[e], capacity[e]);

  std::vector<int64_t> next(counts.kept.size(), 0), end(counts.kept.size(), 0);
  int64_t row = 0;
  for (size_t e = 0; e < next.size(); ++e) {
    next[e] = row;
    row += counts.kept[e];
    end[e] = row;
  }
  for (int64_t i = 0; i < count * chosen; ++i) {
    const auto e = static_cast<size_t>(experts.data<int32_t>()[i]);
    const bool fits = next[e] < end[e];
    if (fits) tokens.data<int32_t>()[next[e]] = static_cast<int32_t>(i / chosen);
    places.data<int32_t>()[i] = fits ? static_cast<int32_t>(next[e]++) : -1;
  }
  return counts;
}

// Tokens [N,C] and rows [R,C] of one type and width.
int64_t check_rows(const char* kernel, const char* name, const Tensor& x, const char* other_name,
                   const Tensor& y) {
  row_type(kernel, x);
  check(x.shape().dims() == 2, "{}: {} is {}, expected [rows,C]", kernel, name, x.shape());
  check(y.defined() && y.shape().dims() == 2, "{}: {} is {}, expected [rows,{}]", kernel, other_name,
        y.shape(), x.dim(1));
  expect(kernel, other_name, y, {y.dim(0), x.dim(1)}, x.dtype());
  return x.dim(1);
}

void check_places(const char* kernel, const Tensor& places, int64_t tokens, const Tensor& rows) {
  check(places.defined() && places.shape().dims() == 2, "{}: places are {}, expected [{},K]", kernel,
        places.shape(), tokens);
  expect(kernel, "places", places, {tokens, places.dim(1)}, Dtype::i32);
  if (!on_cpu(rows.queue())) return;
  for (int64_t i = 0; i < places.numel(); ++i)
    check(places.data<int32_t>()[i] < rows.dim(0), "{}: got the row {}, expected less than {}", kernel,
          places.data<int32_t>()[i], rows.dim(0));
}

void gather(Queue& queue, Tensor& y, const Tensor& x, const Tensor& tokens) {
  const char* kernel = "token_rows.gather";
  const int64_t width = check_rows(kernel, "x", x, "y", y);
  expect(kernel, "tokens", tokens, {y.dim(0)}, Dtype::i32);
  if (on_cpu(queue))
    for (int64_t r = 0; r < y.dim(0); ++r)
      check(tokens.data<int32_t>()[r] >= 0 && tokens.data<int32_t>()[r] < x.dim(0),
            "{}: got token {} for row {}, expected 0 <= token < {}", kernel, tokens.data<int32_t>()[r], r,
            x.dim(0));
  const Meter::Call call = metered(queue, kernel, 0.0, 2.0 * bytes_of(y));
  for_blocks(queue, y.dim(0), rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r)
      std::memcpy(at(y, r * width), at(x, tokens.data<int32_t>()[r] * width),
                  static_cast<size_t>(width) * size_of(x.dtype()));
  });
}

void sum_places(const char* kernel, Queue& queue, Tensor& y, const Tensor& x, const Tensor* weights,
                const Tensor& places) {
  const int64_t width = check_rows(kernel, "x", x, "y", y);
  check_places(kernel, places, y.dim(0), x);
  const int64_t chosen = places.dim(1);
  const TokenRows& rows = choose(queue, &RowTable::token_rows, row_type(kernel, x), &TokenRows::sum_rows);
  const Meter::Call call = metered(queue, kernel, 2.0 * flops_of(x), bytes_of(x, y));
  for_blocks(queue, y.dim(0), rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t n = first; n < first + count; ++n)
      rows.sum_rows(at(y, n * width), x.raw(), places.data<int32_t>() + n * chosen,
                    weights == nullptr ? nullptr : weights->data<float>() + n * chosen, chosen, width);
  });
}

void gather_backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& places) {
  sum_places("token_rows.gather_backward", queue, dx, dy, nullptr, places);
}

void combine(Queue& queue, Tensor& y, const Tensor& x, const Tensor& weights, const Tensor& places) {
  expect("token_rows.combine", "weights", weights, places.shape(), Dtype::f32);
  sum_places("token_rows.combine", queue, y, x, &weights, places);
}

void combine_backward(Queue& queue, Tensor& dx, Tensor& dweights, const Tensor& dy, const Tensor& x,
                      const Tensor& weights, const Tensor& places) {
  const char* kernel = "token_rows.combine_backward";
  const int64_t width = check_rows(kernel, "dy", dy, "x", x);
  expect(kernel, "dx", dx, x.shape(), x.dtype());
  check_places(kernel, places, dy.dim(0), x);
  expect(kernel, "weights", weights, places.shape(), Dtype::f32);
  expect(kernel, "dweights", dweights, places.shape(), Dtype::f32);
  const int64_t chosen = places.dim(1);
  const RowType type = row_type(kernel, x);
  const auto scale_row = choose(queue, &RowTable::token_rows, type, &TokenRows::scale_row).scale_row;
  const auto dot = choose(queue, &RowTable::token_rows, type, &TokenRows::dot).dot;
  const Meter::Call call = metered(queue, kernel, 3.0 * flops_of(x), bytes_of(dx, x, dy));
  for_blocks(queue, dy.dim(0), rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t i = first * chosen; i < (first + count) * chosen; ++i) {
      const int32_t row = places.data<int32_t>()[i];
      dweights.data<float>()[i] = row < 0 ? 0.0f : dot(at(dy, i / chosen * width), at(x, row * width), width);
      if (row >= 0)
        scale_row(at(dx, row * width), at(dy, i / chosen * width), weights.data<float>()[i], width);
    }
  });
}

}  // namespace

std::vector<int64_t> most_rows(int64_t tokens, int64_t chosen, int64_t num_experts,
                               std::span<const int64_t> capacity) {
  std::vector<int64_t> rows;
  int64_t left = tokens * chosen;
  for (int64_t e = 0; e < num_experts; ++e) {
    const int64_t most = capacity.empty() ? tokens : std::min(tokens, capacity[static_cast<size_t>(e)]);
    rows.push_back(std::min(left, most));
    left -= rows.back();
  }
  return rows;
}

const TokenRowsKernels cpu_token_rows{assign, gather, gather_backward, combine, combine_backward};

}  // namespace athanor::kernels
