// What compressed sums are, by definition: N virtual ranks one after the other in one thread, in plain loops that share
// nothing with the library. Tests hold the library's ranks against it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "athanor/base/philox.h"

namespace athanor::tests {

using Floats = std::vector<float>;

// decode(encode(x)) of blocks of 256.
inline Floats code_and_decode(const std::string& kind, const Floats& x) {
  Floats y(x.size());
  for (size_t first = 0; first < x.size(); first += 256) {
    const size_t last = std::min(x.size(), first + 256);
    float most = 0.0f;
    double sum = 0.0;
    for (size_t i = first; i < last; ++i) {
      most = std::max(most, std::fabs(x[i]));
      sum += double{std::fabs(x[i])};
    }
    const float step = most / 127.0f, mean = static_cast<float>(sum / static_cast<double>(last - first));
    for (size_t i = first; i < last; ++i) {
      if (kind == "bf16") {
        auto bits = std::bit_cast<uint32_t>(x[i]);
        const uint32_t low = bits & 0xffffu;
        bits &= 0xffff0000u;
        if (low > 0x8000u || (low == 0x8000u && ((bits >> 16) & 1u) != 0)) bits += 0x10000u;
        y[i] = std::bit_cast<float>(bits);
      } else if (kind == "int8") {
        y[i] = step == 0.0f ? 0.0f : std::rint(x[i] / step) * step;
      } else {
        y[i] = x[i] < 0.0f ? -mean : mean;
      }
    }
  }
  return y;
}

inline Floats largest(const Floats& x, double ratio) {
  const auto count = static_cast<size_t>(std::max(1.0, std::ceil(ratio * static_cast<double>(x.size()))));
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  Floats y(x.size(), 0.0f);
  for (size_t i = 0; i < count; ++i) y[order[i]] = x[order[i]];
  return y;
}

class CompressionDefinition {
 public:
  CompressionDefinition(std::string kind, bool feedback, double ratio = 0.01, int64_t rank = 4,
                        uint64_t seed = 1)
      : kind_(std::move(kind)),
        feedback_(feedback),
        ratio_(ratio),
        rank_(static_cast<size_t>(rank)),
        seed_(seed) {}

  // The sum over the ranks of x[rank], a matrix of `cols` columns. both_ways: the sum is encoded, too.
  Floats sum(const std::string& name, std::vector<Floats> x, size_t cols, bool both_ways = true) {
    Memory& memory = memories_[name];
    const size_t numel = x[0].size();
    if (memory.residuals.empty())
      memory = {std::vector<Floats>(x.size(), Floats(numel, 0.0f)), Floats(numel, 0.0f), {}};
    for (size_t r = 0; feedback_ && r < x.size(); ++r)
      for (size_t i = 0; i < numel; ++i) x[r][i] += memory.residuals[r][i];
    if (kind_ == "powersgd") return power_sum(name, memory, x, cols);
    Floats total(numel, 0.0f);
    for (size_t r = 0; r < x.size(); ++r) {
      const Floats sent = kind_ == "topk" ? largest(x[r], ratio_) : code_and_decode(kind_, x[r]);
      for (size_t i = 0; i < numel; ++i) {
        memory.residuals[r][i] = x[r][i] - sent[i];
        total[i] += sent[i];
      }
    }
    if (kind_ == "topk" || !both_ways) return total;
    for (size_t i = 0; feedback_ && i < numel; ++i) total[i] += memory.of_sum[i];
    const Floats sent = code_and_decode(kind_, total);
    for (size_t i = 0; i < numel; ++i) memory.of_sum[i] = total[i] - sent[i];
    return sent;
  }

  void forget() { memories_.clear(); }

  const Floats& residual(const std::string& name, size_t rank) { return memories_[name].residuals[rank]; }

 private:
  struct Memory {
    std::vector<Floats> residuals;
    Floats of_sum;
    std::vector<std::vector<double>> q;  // [rank][cols]
  };

  // In double: the library's own order of sums is not part of the definition.
  Floats power_sum(const std::string& name, Memory& memory, const std::vector<Floats>& x, size_t cols) {
    const size_t rows = x[0].size() / cols;
    if (memory.q.empty()) {
      const RandomStream stream(seed_, "powersgd " + name);
      for (size_t j = 0; j < rank_; ++j) {
        memory.q.emplace_back();
        for (size_t c = 0; c < cols; ++c) memory.q[j].push_back(double{stream.normal(j * cols + c, 0)});
      }
    }
    std::vector<std::vector<double>> p(rank_, std::vector<double>(rows, 0.0));
    for (size_t j = 0; j < rank_; ++j) {
      for (size_t i = 0; i < rows; ++i)
        for (size_t c = 0; c < cols; ++c)
          for (const Floats& m : x) p[j][i] += double{m[i * cols + c]} * memory.q[j][c];
      for (size_t k = 0; k < j; ++k) {
        const double part = std::inner_product(p[j].begin(), p[j].end(), p[k].begin(), 0.0);
        for (size_t i = 0; i < rows; ++i) p[j][i] -= part * p[k][i];
      }
      const double norm = std::sqrt(std::inner_product(p[j].begin(), p[j].end(), p[j].begin(), 0.0));
      for (double& value : p[j]) value /= norm;
    }
    Floats total(rows * cols, 0.0f);
    std::vector<std::vector<double>> sum_q(rank_, std::vector<double>(cols, 0.0));
    for (size_t r = 0; r < x.size(); ++r) {
      std::vector<double> sent(rows * cols, 0.0);
      for (size_t j = 0; j < rank_; ++j)
        for (size_t c = 0; c < cols; ++c) {
          double q = 0.0;
          for (size_t i = 0; i < rows; ++i) q += double{x[r][i * cols + c]} * p[j][i];
          sum_q[j][c] += q;
          for (size_t i = 0; i < rows; ++i) sent[i * cols + c] += p[j][i] * q;
        }
      for (size_t i = 0; i < sent.size(); ++i)
        memory.residuals[r][i] = static_cast<float>(double{x[r][i]} - sent[i]);
    }
    memory.q = sum_q;
    for (size_t j = 0; j < rank_; ++j)
      for (size_t i = 0; i < rows; ++i)
        for (size_t c = 0; c < cols; ++c) total[i * cols + c] += static_cast<float>(p[j][i] * sum_q[j][c]);
    return total;
  }

  std::string kind_;
  bool feedback_;
  double ratio_;
  size_t rank_;
  uint64_t seed_;
  std::map<std::string, Memory> memories_;
};

}  // namespace athanor::tests
