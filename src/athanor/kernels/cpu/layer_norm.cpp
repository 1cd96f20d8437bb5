#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

void forward(Queue& queue, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& w,
             const Tensor* b, float eps) {
  const char* kernel = "layer_norm.forward";
  const LayerNormRows& rows =
      choose(queue, &RowTable::layer_norm, row_type(kernel, x), &LayerNormRows::forward);
  const int64_t width = x.dim(-1);
  expect(kernel, "y", y, x.shape(), x.dtype());
  expect(kernel, "w", w, {width}, x.dtype());
  if (b != nullptr) expect(kernel, "b", *b, {width}, x.dtype());
  expect_count(kernel, "mean", mean, x.rows(), Dtype::f32);
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 7.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.rows(), rows_per_block(width), [&](int64_t first, int64_t count) {
    rows.forward(at(y, first * width), mean.data<float>() + first, rstd.data<float>() + first,
                 at(x, first * width), w.raw(), b == nullptr ? nullptr : b->raw(), count, width, eps);
  });
}

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
              const Tensor& mean, const Tensor& rstd, const Tensor* base) {
  const char* kernel = "layer_norm.backward";
  const LayerNormRows& rows =
      choose(queue, &RowTable::layer_norm, row_type(kernel, x), &LayerNormRows::backward);
  const int64_t width = x.dim(-1);
  expect(kernel, "dx", dx, x.shape(), x.dtype());
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  if (base != nullptr) expect(kernel, "base", *base, x.shape(), x.dtype());
  expect(kernel, "w", w, {width}, x.dtype());
  expect_count(kernel, "mean", mean, x.rows(), Dtype::f32);
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 10.0 * flops_of(x), bytes_of(dx, dy, x) + bytes_of(base));
  const auto add = choose(queue, &RowTable::elementwise, row_type(kernel, x), &ElementwiseRows::add).add;
  for_blocks(queue, x.rows(), rows_per_block(width), [&](int64_t first, int64_t count) {
    rows.backward(at(dx, first * width), at(dy, first * width), at(x, first * width), w.raw(),
                  mean.data<float>() + first, rstd.data<float>() + first, count, width);
    if (base != nullptr)
      add(at(dx, first * width), at(*base, first * width), at(dx, first * width), count * width);
  });
}

void backward_weight(Queue& queue, Tensor& dw, Tensor* db, const Tensor& dy, const Tensor& x,
                     const Tensor& mean, const Tensor& rstd) {
  const char* kernel = "layer_norm.backward_weight";
  const LayerNormRows& rows =
      choose(queue, &RowTable::layer_norm, row_type(kernel, x), &LayerNormRows::backward_weight);
  const int64_t width = x.dim(-1);
  expect(kernel, "dw", dw, {width}, Dtype::f32);
  if (db != nullptr) expect(kernel, "db", *db, {width}, Dtype::f32);
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  expect_count(kernel, "mean", mean, x.rows(), Dtype::f32);
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 5.0 * flops_of(x), bytes_of(dy, x));
  Tensor dw_partials = empty_partials(x.arena(), x.rows(), width);
  Tensor db_partials = db == nullptr ? Tensor() : empty_partials(x.arena(), x.rows(), width);
  for_blocks(queue, x.rows(), kReduceRows, [&](int64_t first, int64_t count) {
    const int64_t offset = first / kReduceRows * width;
    float* dw_partial = dw_partials.data<float>() + offset;
    float* db_partial = db == nullptr ? nullptr : db_partials.data<float>() + offset;
    std::memset(dw_partial, 0, static_cast<size_t>(width) * sizeof(float));
    if (db != nullptr) std::memset(db_partial, 0, static_cast<size_t>(width) * sizeof(float));
    rows.backward_weight(dw_partial, db_partial, at(dy, first * width), at(x, first * width),
                         mean.data<float>() + first, rstd.data<float>() + first, count, width);
  });
  add_partials(queue, dw, dw_partials);
  if (db != nullptr) add_partials(queue, *db, db_partials);
}

}  // namespace

const LayerNormKernels cpu_layer_norm{forward, backward, backward_weight};

}  // namespace athanor
