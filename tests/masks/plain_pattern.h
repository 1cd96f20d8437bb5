// Patterns of attention written down a second time, as plainly as the papers have them: a question for each pair.
//
//   const PlainPattern plain{.limits = {causal()}, .shows = {band(3), global(1, 0)}};
//   const Pairs pairs = plain.pairs(/*n=*/65, /*layer=*/0, /*head=*/0);
//   pairs(i, j);
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace athanor::tests::masks {

using Predicate = std::function<bool(int64_t i, int64_t j, int64_t n)>;

Predicate causal();
Predicate prefix(int64_t p);
Predicate chunk(int64_t c);
Predicate documents(std::vector<int64_t> lengths);
Predicate band(int64_t w);
Predicate window(int64_t width);
Predicate dilated(int64_t w, int64_t d);
Predicate global(int64_t first, int64_t last);
Predicate block(int64_t b);
Predicate block_band(int64_t b, int64_t m);
Predicate strided(int64_t s);
Predicate fixed(int64_t s, int64_t c);

// All pairs of a sequence.
class Pairs {
 public:
  explicit Pairs(int64_t n) : n_(n), seen_(static_cast<size_t>(n * n)) {}
  bool operator()(int64_t i, int64_t j) const { return seen_[index(i, j)]; }
  void set(int64_t i, int64_t j, bool seen) { seen_[index(i, j)] = seen; }
  int64_t n() const { return n_; }

 private:
  size_t index(int64_t i, int64_t j) const { return static_cast<size_t>(i * n_ + j); }
  int64_t n_;
  std::vector<bool> seen_;
};

struct PlainPattern {
  std::vector<Predicate> limits = {}, shows = {};
  int64_t random = 0, random_block = 64;  // blocks for each block of queries; 0: no random term

  bool limited(int64_t i, int64_t j, int64_t n) const;  // no limit hides it
  bool shown(int64_t i, int64_t j, int64_t n) const;    // by a term other than random
  Pairs pairs(int64_t n, int64_t layer, int64_t head) const;
};

}  // namespace athanor::tests::masks
