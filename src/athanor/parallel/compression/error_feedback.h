// Error feedback (Seide et al. 2014; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019): what a lossy code
// left out of a step's values is added to the next step's, so nothing is lost, only late.
//
//   ErrorFeedback feedback({numel, ...}, arena, /*enabled=*/true);
//   feedback.add(tensor, first, count, x);               // x += residue
//   ... decoded = decode(encode(x)) ...
//   feedback.keep(tensor, first, count, x, decoded);     // residue = x - decoded
//   feedback.encode(code, tensor, first, count, x, bytes);   // all three, of a block code
//   feedback.keep_rest(tensor, x);                           // residue = x: what is left of it is not sent
//
// Residues are f32, zero at the start, kind `optimizer` of the memory plan. Where it is not enabled nothing is kept
// and both calls do nothing. Values may have a unit (the loss scale of f16): x is so many times what the residue counts.
// Thread rule: calls for different elements may be made at once; set_unit() and clear() stand between steps.
#pragma once

#include <array>
#include <vector>

#include "athanor/parallel/compression/block_code.h"
#include "athanor/tensor/tensor.h"

namespace athanor {

class ErrorFeedback {
 public:
  ErrorFeedback(const std::vector<int64_t>& numels, Arena& arena, bool enabled) {
    for (const int64_t numel : numels)
      if (enabled) residues_.push_back(zeros(arena, {numel}, Dtype::f32, Category::optimizer));
  }
  bool enabled() const { return !residues_.empty(); }
  const Tensor& residue(size_t tensor) const { return residues_.at(tensor); }
  void set_unit(double unit) {
    unit_ = static_cast<float>(unit);
    to_residue_ = static_cast<float>(1.0 / unit);
  }
  void clear() {
    for (Tensor& residue : residues_) fill_zero(residue);
  }

  void add(size_t tensor, int64_t first, int64_t count, float* x) const {
    if (!enabled()) return;
    const float* residue = residues_[tensor].data<float>() + first;
    for (int64_t i = 0; i < count; ++i) x[i] += residue[i] * unit_;
  }
  void keep(size_t tensor, int64_t first, int64_t count, const float* x, const float* decoded) {
    if (!enabled()) return;
    float* residue = residues_[tensor].data<float>() + first;
    for (int64_t i = 0; i < count; ++i) residue[i] = (x[i] - decoded[i]) * to_residue_;
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
    float* residue = residues_[tensor].data<float>();
    for (int64_t i = 0; i < residues_[tensor].numel(); ++i) residue[i] = x[i] * to_residue_;
  }

 private:
  std::vector<Tensor> residues_;
  float unit_ = 1.0f, to_residue_ = 1.0f;
};

}  // namespace athanor
