// PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression", NeurIPS 2019): a matrix
// M [rows, cols] is sent as two factors of rank r, one step of subspace iteration from the last step's factor.
//
//   start     M = x + residual;  P = M Q;  P summed over the ranks (all_reduce)
//   proceed   P's columns made orthonormal;  Q = M^T P;  residual = M - P Q^T, with this rank's Q;
//             Q summed over the ranks (all_reduce)
//   finish    x = P Q^T
//
// x is exactly the sum of the ranks' P Q^T, so the residuals of all ranks add up to the whole error. Initial Q: normal
// values drawn by (seed, tensor's name, element); a column of Q that has become zero is drawn again. A column of P
// becomes zero if only rounding errors are left of it after orthogonalization. Sums are in a fixed order.
// Traffic: a rank sends 2 (n-1)/n 4 r (rows + cols) bytes a matrix; worth it for matrices with r (rows + cols) < rows
// cols.
#pragma once

#include "athanor/parallel/compression/compressed_sum.h"
#include "athanor/parallel/compression/error_feedback.h"

namespace athanor::parallel::compression {

class PowersgdSum final : public CompressedSum {
 public:
  PowersgdSum(std::string name, std::vector<SumTensor> tensors, int64_t rank, uint64_t seed, Group& group,
              Arena& arena, bool error_feedback);
  void start(std::vector<Tensor> grads) override;
  void proceed(WaitClock& clock) override;
  void finish(WaitClock& clock) override;
  void set_unit(double unit) override { feedback_.set_unit(unit); }
  void forget() override {
    feedback_.clear();
    fill_zero(q_);  // start() draws it again
  }
  std::vector<SumState> states() const override;

 private:
  struct Matrix {
    int64_t rows, cols;
    Tensor p, q;  // f32, a row for each of the r columns: [r, rows] and [r, cols]
  };
  Matrix matrix(size_t tensor) const;
  void draw_columns(const Matrix& m, size_t tensor) const;
  void keep_residual(const Matrix& m, size_t tensor);

  std::string name_;
  std::vector<SumTensor> tensors_;
  int64_t rank_;  // r
  uint64_t seed_;
  Group& group_;
  Arena& arena_;
  ErrorFeedback feedback_;
  std::vector<int64_t> first_p_, first_q_;  // offset of each matrix in p_ and q_
  int64_t total_p_ = 0;
  Tensor q_, p_;  // of all matrices; q_ is kept from step to step
  std::vector<Tensor> grads_;
  Work work_;
};

}  // namespace athanor::parallel::compression
