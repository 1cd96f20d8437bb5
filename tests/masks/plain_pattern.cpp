#include "masks/plain_pattern.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "athanor/base/philox.h"

namespace athanor::tests::masks {

Predicate causal() {
  return [](int64_t i, int64_t j, int64_t) { return j <= i; };
}
Predicate prefix(int64_t p) {
  return [=](int64_t i, int64_t j, int64_t) { return j <= i || j < p; };
}
Predicate chunk(int64_t c) {
  return [=](int64_t i, int64_t j, int64_t) { return i / c == j / c; };
}
Predicate documents(std::vector<int64_t> lengths) {
  return [=](int64_t i, int64_t j, int64_t) {
    const auto document = [&](int64_t position) {
      int64_t number = 0;
      for (int64_t end = lengths[0]; end <= position; ++number)
        end += lengths[std::min(static_cast<size_t>(number) + 1, lengths.size() - 1)];
      return number;
    };
    return document(i) == document(j);
  };
}
Predicate band(int64_t w) {
  return [=](int64_t i, int64_t j, int64_t) { return std::abs(i - j) <= w; };
}
Predicate window(int64_t width) {
  return [=](int64_t i, int64_t j, int64_t) { return 0 <= i - j && i - j < width; };
}
Predicate dilated(int64_t w, int64_t d) {
  return [=](int64_t i, int64_t j, int64_t) {
    for (int64_t t = -w; t <= w; ++t)
      if (j == i + d * t) return true;
    return false;
  };
}
Predicate global(int64_t first, int64_t last) {
  return [=](int64_t i, int64_t j, int64_t n) {
    return i < first || j < first || i >= n - last || j >= n - last;
  };
}
Predicate block(int64_t b) {
  return [=](int64_t i, int64_t j, int64_t) { return i / b == j / b; };
}
Predicate block_band(int64_t b, int64_t m) {
  return [=](int64_t i, int64_t j, int64_t) { return std::abs(i / b - j / b) <= m; };
}
Predicate strided(int64_t s) {
  return [=](int64_t i, int64_t j, int64_t) { return std::abs(i - j) < s || (i - j) % s == 0; };
}
Predicate fixed(int64_t s, int64_t c) {
  return [=](int64_t i, int64_t j, int64_t) { return i / s == j / s || j % s >= s - c; };
}

bool PlainPattern::limited(int64_t i, int64_t j, int64_t n) const {
  return std::all_of(limits.begin(), limits.end(), [&](const Predicate& limit) { return limit(i, j, n); });
}

bool PlainPattern::shown(int64_t i, int64_t j, int64_t n) const {
  if (shows.empty() && random == 0) return true;
  return std::any_of(shows.begin(), shows.end(), [&](const Predicate& show) { return show(i, j, n); });
}

Pairs PlainPattern::pairs(int64_t n, int64_t layer, int64_t head) const {
  std::set<std::pair<int64_t, int64_t>> drawn;
  const int64_t b = random_block, blocks = (n + b - 1) / b;
  const RandomStream stream(/*seed=*/0, "attention.random");
  for (int64_t query = 0; query < blocks && random > 0; ++query) {
    std::vector<std::pair<uint32_t, int64_t>> open;
    for (int64_t key = 0; key < blocks; ++key) {
      bool any_shown = false, any_limited = false;
      for (int64_t i = query * b; i < (query + 1) * b; ++i)
        for (int64_t j = key * b; j < (key + 1) * b; ++j) {
          any_shown = any_shown || shown(i, j, n);
          any_limited = any_limited || limited(i, j, n);
        }
      const uint64_t element = static_cast<uint64_t>(query) * 4294967296u + static_cast<uint64_t>(key);
      const uint64_t step = static_cast<uint64_t>(layer) * 4294967296u + static_cast<uint64_t>(head);
      if (!any_shown && any_limited) open.emplace_back(stream.word(element, step), key);
    }
    std::sort(open.begin(), open.end());
    for (size_t i = 0; i < open.size() && static_cast<int64_t>(i) < random; ++i)
      drawn.insert({query, open[i].second});
  }
  Pairs pairs(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      pairs.set(i, j, limited(i, j, n) && (shown(i, j, n) || drawn.count({i / b, j / b}) > 0));
  return pairs;
}

}  // namespace athanor::tests::masks
