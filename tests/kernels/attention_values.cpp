#include "kernels/attention_values.h"

#include <algorithm>
#include <cmath>

namespace athanor::tests {

AttentionInputs attention_inputs(const AttentionShape& s, Dtype dtype) {
  return {random_values(s.q().numel(), dtype, 1), random_values(s.k().numel(), dtype, 2),
          random_values(s.k().numel(), dtype, 3), random_values(s.q().numel(), dtype, 4)};
}

AttentionResults attention_textbook(const AttentionShape& p, const AttentionInputs& in, double scale,
                                    const SeesPair& sees) {
  AttentionResults r{Values(in.q.size()), Values(static_cast<size_t>(p.lse().numel()), -HUGE_VAL),
                     Values(in.q.size()), Values(in.k.size()), Values(in.k.size())};
  const auto width = static_cast<size_t>(p.head_dim);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t t = 0; t < p.queries; ++t) {
        const auto row = static_cast<size_t>((b * p.queries + t) * p.heads + h) * width;
        std::vector<size_t> at;  // rows of the keys that it sees
        for (int64_t s = 0; s < p.keys; ++s)
          if (sees(b, h, t, s))
            at.push_back(static_cast<size_t>((b * p.keys + s) * p.kv_heads + h / (p.heads / p.kv_heads)) *
                         width);
        if (at.empty()) continue;
        Values weight(at.size()), products(at.size());
        for (size_t i = 0; i < at.size(); ++i)
          for (size_t d = 0; d < width; ++d) {
            weight[i] += scale * in.q[row + d] * in.k[at[i] + d];
            products[i] += in.d_o[row + d] * in.v[at[i] + d];
          }
        const double largest = *std::max_element(weight.begin(), weight.end());
        double total = 0, delta = 0;
        for (double& w : weight) total += w = std::exp(w - largest);
        for (size_t i = 0; i < at.size(); ++i) delta += (weight[i] /= total) * products[i];
        r.lse[static_cast<size_t>((b * p.heads + h) * p.queries + t)] = largest + std::log(total);
        for (size_t i = 0; i < at.size(); ++i)
          for (size_t d = 0; d < width; ++d) {
            const double ds = scale * weight[i] * (products[i] - delta);
            r.o[row + d] += weight[i] * in.v[at[i] + d];
            r.dv[at[i] + d] += weight[i] * in.d_o[row + d];
            r.dq[row + d] += ds * in.k[at[i] + d];
            r.dk[at[i] + d] += ds * in.q[row + d];
          }
      }
  return r;
}

void expect_lse(Values got, Values expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i] == -HUGE_VAL, expected[i] == -HUGE_VAL) << i;
    if (got[i] == -HUGE_VAL) got[i] = expected[i] = 0;
  }
  expect_close(got, expected, 2e-6);
}

}  // namespace athanor::tests
