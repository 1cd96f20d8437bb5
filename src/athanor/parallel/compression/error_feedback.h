// Error feedback (Seide et al. 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019): the compression
// error of a step, the residual, is added to the values of the next step, so nothing is lost, only delayed.
//
//   ErrorFeedback feedback({numel, other_numel}, arena, /*enabled=*/true);
//   feedback.add(tensor, first, count, x);               // x += residual
//   ... decoded = decode(encode(x)) ...
//   feedback.keep(tensor, first, count, x, decoded);     // residual = x - decoded
//   feedback.encode(code, tensor, first, count, x, bytes);   // all three, with a block code
//   feedback.keep_rest(tensor, x);                           // residual = x: the values in x were not sent
//
// Residuals are f32, zero at the start, category `optimizer` of the memory plan. If not enabled, nothing is kept; add()
// and keep() do nothing, encode() only encodes. set_unit(): x is in multiples of this unit (the loss scale of f16);
// residuals are stored without it.
// Thread rule: calls for different elements may be concurrent; set_unit() and clear() only between steps.
#pragma once

#include <array>
#include <vector>

#include "athanor/parallel/compression/block_code.h"
#include "athanor/tensor/tensor.h"

namespace athanor::parallel::compression {

class ErrorFeedback {
 public:
  ErrorFeedback(const std::vector<int64_t>& numels, Arena& arena, bool enabled) {
    for (const int64_t numel : numels)
      if (enabled) residuals_.push_back(zeros(arena, {numel}, Dtype::f32, Category::optimizer));
  }
  bool enabled() const { return !residuals_.empty(); }
  const Tensor& residual(size_t tensor) const { return residuals_.at(tensor); }
  void set_unit(double unit) {
    unit_ = static_cast<float>(unit);
    to_residual_ = static_cast<float>(1.0 / unit);
  }
  void clear() {
    for (Tensor& residual : residuals_) fill_zero(residual);
  }

  void add(size_t tensor, int64_t first, int64_t count, float* x) const {
    if (!enabled()) return;
    const float* residual = residuals_[tensor].data<float>() + first;
    for (int64_t i = 0; i < count; ++i) x[i] += residual[i] * unit_;
  }
  void keep(size_t tensor, int64_t first, int64_t count, const float* x, const float* decoded) {
    if (!enabled()) return;
    float* residual = residuals_[tensor].data<float>() + first;
    for (int64_t i = 0; i < count; ++i) residual[i] = (x[i] - decoded[i]) * to_residual_;
  }
  void encode(const BlockCode& code, size_t tensor, int64_t first, int64_t count, float* x,
              std::byte* bytes) {
    add(tensor, first, count, x);
    code.encode(x, count, bytes);
    if (!enabled()) return;
    std::array<float, kCodeBlock> decoded;
    code.decode(bytes, count, decoded.data());
    keep(tensor, first, count, x, decoded.data());
  }
  void keep_rest(size_t tensor, const float* x) {
    if (!enabled()) return;
    float* residual = residuals_[tensor].data<float>();
    for (int64_t i = 0; i < residuals_[tensor].numel(); ++i) residual[i] = x[i] * to_residual_;
  }

 private:
  std::vector<Tensor> residuals_;
  float unit_ = 1.0f, to_residual_ = 1.0f;
};

}  // namespace athanor::parallel::compression
