#include "athanor/parallel/compression/powersgd_sum.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/base/philox.h"

namespace athanor::parallel::compression {
namespace {

constexpr int64_t kLanes = 16, kRowsPerTask = 64, kColsPerTask = 256;
constexpr double kOnlyRounding = 1e-12;  // fraction of a column's squared norm that may be rounding error

// Adds in a fixed order of vector lanes.
float dot(const float* a, const float* b, int64_t count) {
  std::array<float, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

double exact_dot(const float* a, const float* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Modified Gram-Schmidt over the rows of p [r, rows].
void make_orthonormal(const Tensor& p) {
  const int64_t rank = p.dim(0), rows = p.dim(1);
  for (int64_t j = 0; j < rank; ++j) {
    float* row = p.data<float>() + j * rows;
    const double before = exact_dot(row, row, rows);
    for (int64_t k = 0; k < j; ++k) {
      const float* other = p.data<float>() + k * rows;
      const auto part = static_cast<float>(exact_dot(row, other, rows));
      for (int64_t i = 0; i < rows; ++i) row[i] -= part * other[i];
    }
    const double left = exact_dot(row, row, rows);
    // NaN and infinity propagate, so that the gradient norm finds them.
    const auto factor = static_cast<float>(left <= kOnlyRounding * before ? 0.0 : 1.0 / std::sqrt(left));
    for (int64_t i = 0; i < rows; ++i) row[i] *= factor;
  }
}

template <typename Body>
void for_tasks(const Queue& queue, int64_t count, int64_t of_task, const Body& body) {
  queue.parallel_for((count + of_task - 1) / of_task,
                     [&](int64_t task) { body(task * of_task, std::min(count, (task + 1) * of_task)); });
}

// Row `at` of P Q^T.
void multiply_row(const float* p, const float* q, int64_t rank, int64_t rows, int64_t cols, int64_t at,
                  float* row) {
  std::fill_n(row, cols, 0.0f);
  for (int64_t j = 0; j < rank; ++j) {
    const float factor = p[j * rows + at];
    for (int64_t c = 0; c < cols; ++c) row[c] += factor * q[j * cols + c];
  }
}

}  // namespace

PowersgdSum::PowersgdSum(std::string name, std::vector<SumTensor> tensors, int64_t rank, uint64_t seed,
                         Group& group, Arena& arena, bool error_feedback)
    : name_(std::move(name)),
      tensors_(std::move(tensors)),
      rank_(rank),
      seed_(seed),
      group_(group),
      arena_(arena),
      feedback_(numels_of(tensors_), arena, error_feedback) {
  int64_t total_q = 0;
  for (const SumTensor& tensor : tensors_) {
    first_p_.push_back(total_p_);
    first_q_.push_back(total_q);
    total_p_ += rank_ * tensor.rows;
    total_q += rank_ * tensor.cols;
  }
  q_ = zeros(arena_, {total_q}, Dtype::f32, Category::optimizer);
}

PowersgdSum::Matrix PowersgdSum::matrix(size_t tensor) const {
  const auto [rows, cols] = std::pair(tensors_[tensor].rows, tensors_[tensor].cols);
  return {rows, cols, p_.flat(first_p_[tensor], rank_ * rows).view({rank_, rows}),
          q_.flat(first_q_[tensor], rank_ * cols).view({rank_, cols})};
}

// Draws the columns of Q that are zero: the iteration would leave them zero for ever.
void PowersgdSum::draw_columns(const Matrix& m, size_t tensor) const {
  const RandomStream stream(seed_, "powersgd " + tensors_[tensor].name);
  for (int64_t j = 0; j < rank_; ++j) {
    float* column = m.q.data<float>() + j * m.cols;
    if (std::all_of(column, column + m.cols, [](float x) { return x == 0.0f; }))
      stream.fill_normal(column, static_cast<uint64_t>(j * m.cols), static_cast<uint64_t>(m.cols), 1.0f);
  }
}

void PowersgdSum::start(std::vector<Tensor> grads) {
  grads_ = std::move(grads);
  p_ = empty(arena_, {total_p_}, Dtype::f32, Category::communication);
  for (size_t t = 0; t < tensors_.size() && arena_.queue().device() != Device::null; ++t) {
    const Matrix m = matrix(t);
    float* x = grads_[t].data<float>();
    draw_columns(m, t);
    for_tasks(arena_.queue(), m.rows, kRowsPerTask, [&](int64_t first, int64_t last) {
      feedback_.add(t, first * m.cols, (last - first) * m.cols, x + first * m.cols);
      for (int64_t row = first; row < last; ++row)
        for (int64_t j = 0; j < rank_; ++j)
          m.p.data<float>()[j * m.rows + row] = dot(x + row * m.cols, m.q.data<float>() + j * m.cols, m.cols);
    });
  }
  work_ = group_.all_reduce(p_.raw(), total_p_, Dtype::f32, name_ + ": P");
}

void PowersgdSum::keep_residual(const Matrix& m, size_t tensor) {
  const float* x = grads_[tensor].data<float>();
  Tensor residual = feedback_.residual(tensor);
  for_tasks(arena_.queue(), m.rows, kRowsPerTask, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      float* left = residual.data<float>() + row * m.cols;
      multiply_row(m.p.data<float>(), m.q.data<float>(), rank_, m.rows, m.cols, row, left);
      feedback_.keep(tensor, row * m.cols, m.cols, x + row * m.cols, left);
    }
  });
}

void PowersgdSum::proceed(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  for (size_t t = 0; t < tensors_.size() && arena_.queue().device() != Device::null; ++t) {
    const Matrix m = matrix(t);
    const float *x = grads_[t].data<float>(), *p = m.p.data<float>();
    make_orthonormal(m.p);
    for_tasks(arena_.queue(), m.cols, kColsPerTask, [&](int64_t first, int64_t last) {
      for (int64_t j = 0; j < rank_; ++j) {
        float* q = m.q.data<float>() + j * m.cols;
        std::fill(q + first, q + last, 0.0f);
        for (int64_t row = 0; row < m.rows; ++row)
          for (int64_t c = first; c < last; ++c) q[c] += p[j * m.rows + row] * x[row * m.cols + c];
      }
    });
    if (feedback_.enabled()) keep_residual(m, t);
  }
  work_ = group_.all_reduce(q_.raw(), q_.numel(), Dtype::f32, name_ + ": Q");
}

void PowersgdSum::finish(WaitClock& clock) {
  clock.wait(work_, "wait for gradients");
  for (size_t t = 0; t < tensors_.size() && arena_.queue().device() != Device::null; ++t) {
    const Matrix m = matrix(t);
    float* x = grads_[t].data<float>();
    for_tasks(arena_.queue(), m.rows, kRowsPerTask, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        multiply_row(m.p.data<float>(), m.q.data<float>(), rank_, m.rows, m.cols, row, x + row * m.cols);
    });
  }
  grads_.clear();
  p_ = {};
}

std::vector<SumState> PowersgdSum::states() const {
  std::vector<SumState> states;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const auto [rows, cols] = std::pair(tensors_[t].rows, tensors_[t].cols);
    if (feedback_.enabled())
      states.push_back({StateKind::residual, t, {0, rows * cols}, feedback_.residual(t)});
    states.push_back(
        {StateKind::factor, t, {0, rank_ * cols}, q_.flat(first_q_[t], rank_ * cols).view({rank_, cols})});
  }
  return states;
}

}  // namespace athanor::parallel::compression
