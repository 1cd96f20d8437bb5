#include <cstring>
#include <optional>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void forward(Queue& queue, Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& w, float eps) {
  const char* kernel = "rms_norm.forward";
  const RmsNormRows& rows = choose(queue, &RowTable::rms_norm, row_type(kernel, x), &RmsNormRows::forward);
  const int64_t width = x.dim(-1);
  expect(kernel, "y", y, x.shape(), x.dtype());
  expect(kernel, "w", w, {width}, x.dtype());
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, 4.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.rows(), rows_per_block(width), [&](int64_t first, int64_t count) {
    rows.forward(at(y, first * width), rstd.data<float>() + first, at(x, first * width), w.raw(), count,
                 width, eps);
  });
}

// Sums over blocks of kReduceRows rows.
class WeightSums {
 public:
  WeightSums(const char* kernel, const RmsNormRows& rows, Tensor& dw, const Tensor& dy, const Tensor& x,
             const Tensor& rstd)
      : rows_(rows), dw_(dw), dy_(dy), x_(x), rstd_(rstd), width_(x.dim(-1)) {
    expect(kernel, "dw", dw, {width_}, Dtype::f32);
    partials_ = empty_partials(x.arena(), x.rows(), width_);
  }
  void add_block(int64_t first, int64_t count) const {
    float* const partial = partials_.data<float>() + first / kReduceRows * width_;
    std::memset(partial, 0, static_cast<size_t>(width_) * sizeof(float));
    rows_.backward_weight(partial, at(dy_, first * width_), at(x_, first * width_),
                          rstd_.data<float>() + first, count, width_);
  }
  void finish(Queue& queue) { add_partials(queue, dw_, partials_); }

 private:
  const RmsNormRows& rows_;
  Tensor& dw_;
  const Tensor &dy_, &x_, &rstd_;
  int64_t width_;
  Tensor partials_;
};

void backward(Queue& queue, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
              const Tensor& rstd, const Tensor* base, Tensor* dw) {
  const char* kernel = "rms_norm.backward";
  const RmsNormRows& rows = choose(queue, &RowTable::rms_norm, row_type(kernel, x), &RmsNormRows::backward);
  const int64_t width = x.dim(-1);
  expect(kernel, "dx", dx, x.shape(), x.dtype());
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  if (base != nullptr) expect(kernel, "base", *base, x.shape(), x.dtype());
  expect(kernel, "w", w, {width}, x.dtype());
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  const Meter::Call call = metered(queue, kernel, (dw == nullptr ? 8.0 : 11.0) * flops_of(x),
                                   bytes_of(dx, dy, x) + bytes_of(base));
  const auto add = choose(queue, &RowTable::elementwise, row_type(kernel, x), &ElementwiseRows::add).add;
  std::optional<WeightSums> sums;
  if (dw != nullptr) sums.emplace(kernel, rows, *dw, dy, x, rstd);
  for_blocks(queue, x.rows(), sums ? kReduceRows : rows_per_block(width), [&](int64_t first, int64_t count) {
    rows.backward(at(dx, first * width), at(dy, first * width), at(x, first * width), w.raw(),
                  rstd.data<float>() + first, count, width);
    if (base != nullptr)
      add(at(dx, first * width), at(*base, first * width), at(dx, first * width), count * width);
    if (sums) sums->add_block(first, count);
  });
  if (sums) sums->finish(queue);
}

void backward_weight(Queue& queue, Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& rstd) {
  const char* kernel = "rms_norm.backward_weight";
  const RmsNormRows& rows =
      choose(queue, &RowTable::rms_norm, row_type(kernel, x), &RmsNormRows::backward_weight);
  expect(kernel, "dy", dy, x.shape(), x.dtype());
  expect_count(kernel, "rstd", rstd, x.rows(), Dtype::f32);
  WeightSums sums(kernel, rows, dw, dy, x, rstd);
  const Meter::Call call = metered(queue, kernel, 3.0 * flops_of(x), bytes_of(dy, x));
  for_blocks(queue, x.rows(), kReduceRows,
             [&](int64_t first, int64_t count) { sums.add_block(first, count); });
  sums.finish(queue);
}

}  // namespace

const RmsNormKernels cpu_rms_norm{forward, backward, backward_weight};

}  // namespace athanor::kernels
