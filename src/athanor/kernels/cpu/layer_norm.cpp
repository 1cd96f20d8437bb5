#include <cstring>
#include <optional>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
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

// Sums over blocks of kReduceRows rows: dw and db, which may be null.
class WeightSums {
 public:
  WeightSums(const char* kernel, const LayerNormRows& rows, Tensor& dw, Tensor* db, const Tensor& dy,
             const Tensor& x, const Tensor& mean, const Tensor& rstd)
      : rows_(rows), dw_(dw), db_(db), dy_(dy), x_(x), mean_(mean), rstd_(rstd), width_(x.dim(-1)) {
    expect(kernel, "dw", dw, {width_}, Dtype::f32);
    if (db != nullptr) expect(kernel, "db", *db, {width_}, Dtype::f32);
    dw_partials_ = empty_partials(x.arena(), x.rows(), width_);
    if (db != nullptr) db_partials_ = empty_partials(x.arena(), x.rows(), width_);
  }
  void add_block(int64_t first, int64_t count) const {
    const auto cleared = [&](const Tensor& partials) {
      float* const partial = partials.data<float>() + first / kReduceRows * width_;
      std::memset(partial, 0, static_cast<size_t>(width_) * sizeof(float));
      return partial;
    };
    rows_.backward_weight(cleared(dw_partials_), db_ == nullptr ? nullptr : cleared(db_partials_),
                          at(dy_, first * width_), at(x_, first * width_), mean_.data<float>() + first,
                          rstd_.data<float>() + first, count, width_);
  }
  void finish(Queue& queue) {
    add_partials(queue, dw_, dw_partials_);
    if (db_ != nullptr) add_partials(queue, *db_, db_partials_);
  }

 private:
  const LayerNormRows& rows_;
  Tensor& dw_;
  Tensor* db_;
  const Tensor &dy_, &x_, &mean_, &rstd_;
  int64_t width_;
  Tensor dw_partials_, db_partials_;
};

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
              const Tensor& mean, const Tensor& rstd, const Tensor* base, Tensor* dw, Tensor* db) {
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
  const Meter::Call call = metered(queue, kernel, (dw == nullptr ? 10.0 : 15.0) * flops_of(x),
                                   bytes_of(dx, dy, x) + bytes_of(base));
  const auto add = choose(queue, &RowTable::elementwise, row_type(kernel, x), &ElementwiseRows::add).add;
  std::optional<WeightSums> sums;
  if (dw != nullptr) sums.emplace(kernel, rows, *dw, db, dy, x, mean, rstd);
  for_blocks(queue, x.rows(), sums ? kReduceRows : rows_per_block(width), [&](int64_t first, int64_t count) {
    rows.backward(at(dx, first * width), at(dy, first * width), at(x, first * width), w.raw(),
                  mean.data<float>() + first, rstd.data<float>() + first, count, width);
    if (base != nullptr)
      add(at(dx, first * width), at(*base, first * width), at(dx, first * width), count * width);
    if (sums) sums->add_block(first, count);
  });
  if (sums) sums->finish(queue);
}

void backward_weight(Queue& queue, Tensor& dw, Tensor* db, const Tensor& dy, const Tensor& x,
                     const Tensor& mean, const Tensor& rstd) {
  const char* kernel = "layer_norm.backward_weight";
  const LayerNormRows& rows =
      choose(queue, &RowTable::layer_norm, row_type(kernel, x), &LayerNormRows::backward_weight);
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  expect_count(kernel, "mean", mean, x.rows(), Dtype::f32);
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  WeightSums sums(kernel, rows, dw, db, dy, x, mean, rstd);
  const Meter::Call call = metered(queue, kernel, 5.0 * flops_of(x), bytes_of(dy, x));
  for_blocks(queue, x.rows(), kReduceRows,
             [&](int64_t first, int64_t count) { sums.add_block(first, count); });
  sums.finish(queue);
}

}  // namespace

const LayerNormKernels cpu_layer_norm{forward, backward, backward_weight};

}  // namespace athanor::kernels
