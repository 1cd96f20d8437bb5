#include "kernels/attention_values.h"

#include <algorithm>
#include <cmath>

namespace athanor::tests {

AttentionInputs attention_inputs(const AttentionShape& s, Dtype dtype) {
  return {random_values(s.q().numel(), dtype, 1), random_values(s.k().numel(), dtype, 2),
          random_values(s.v().numel(), dtype, 3), random_values(s.o().numel(), dtype, 4)};
}

AttentionResults attention_textbook(const AttentionShape& p, const AttentionInputs& in, double scale,
                                    const SeesPair& sees, const TextbookScores& terms) {
  AttentionResults r{Values(in.d_o.size()),     Values(static_cast<size_t>(p.lse().numel()), -HUGE_VAL),
                     Values(in.q.size()),       Values(in.k.size()),
                     Values(in.v.size()),       Values(terms.bias.size()),
                     Values(terms.sinks.size())};
  const auto width = static_cast<size_t>(p.head_dim), value_dim = static_cast<size_t>(p.values());
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t t = 0; t < p.queries; ++t) {
        const auto query = static_cast<size_t>((b * p.queries + t) * p.heads + h);
        const size_t row = query * width, out = query * value_dim;
        struct Key {
          size_t row, value, bucket;  // of k, of v, of the bias
          double keep, weight, product, slope;
        };
        std::vector<Key> keys;  // that it sees
        for (int64_t s = 0; s < p.keys; ++s) {
          if (!sees(b, h, t, s)) continue;
          const auto at = static_cast<size_t>((b * p.keys + s) * p.kv_heads + h / (p.heads / p.kv_heads));
          Key key{at * width, at * value_dim, 0, 1, 0, 0, 1};
          if (terms.keep) key.keep = terms.keep(b, h, t, s);
          for (size_t d = 0; d < width; ++d) key.weight += scale * in.q[row + d] * in.k[key.row + d];
          for (size_t d = 0; d < value_dim; ++d) key.product += in.d_o[out + d] * in.v[key.value + d];
          if (terms.softcap > 0) {
            const double capped = std::tanh(key.weight / terms.softcap);
            key.slope = 1 - capped * capped;
            key.weight = terms.softcap * capped;
          }
          if (!terms.bias.empty()) {
            key.bucket = terms.bucket(h, t, s);
            key.weight += terms.bias[key.bucket];
          }
          keys.push_back(key);
        }
        const double sink = terms.sinks.empty() ? -HUGE_VAL : terms.sinks[static_cast<size_t>(h)];
        double largest = sink, delta = 0;
        for (const Key& key : keys) largest = std::max(largest, key.weight);
        if (std::isinf(largest)) continue;
        double total = std::exp(sink - largest);
        for (const Key& key : keys) total += std::exp(key.weight - largest);
        const double lse = largest + std::log(total);
        r.lse[static_cast<size_t>((b * p.heads + h) * p.queries + t)] = lse;
        for (Key& key : keys) {
          key.weight = std::exp(key.weight - lse);
          delta += key.weight * key.keep * key.product;
        }
        if (!terms.sinks.empty()) r.d_sinks[static_cast<size_t>(h)] -= std::exp(sink - lse) * delta;
        for (const Key& key : keys) {
          const double d_score = key.weight * (key.keep * key.product - delta),
                       ds = scale * d_score * key.slope;
          if (!terms.bias.empty()) r.d_bias[key.bucket] += d_score;
          for (size_t d = 0; d < value_dim; ++d) {
            r.o[out + d] += key.weight * key.keep * in.v[key.value + d];
            r.dv[key.value + d] += key.weight * key.keep * in.d_o[out + d];
          }
          for (size_t d = 0; d < width; ++d) {
            r.dq[row + d] += ds * in.k[key.row + d];
            r.dk[key.row + d] += ds * in.q[row + d];
          }
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
