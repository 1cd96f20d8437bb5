// Which channel the n-th sequence of a run comes from, and how many of that channel came before it: a pure
// function of n, exact in integers, with no state and no index built in advance (law 3).
//
//   const Mixture mixture({0.7, 0.3});
//   const Draw draw = mixture.draw(n);            // draw.channel, draw.number
//   mixture.count(1, n);                          // how many of the first n came from channel 1
//
// The channels are spread as evenly as integers allow, as Bresenham's algorithm spreads the steps of a line:
// of the first n sequences, channel 0 has round(n * w0 / (w0 + w1 + ...)), channel 1 its share of what is
// left, and so on. So at every n, not only in the long run, every channel has its share to within one
// sequence or so, and the numbers of a channel come in order: its epochs follow each other without overlap.
//
// Shares are fixed-point with 62 bits. O(channels) per call. Thread rule: const, any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace athanor {

struct Draw {
  int channel = 0;
  int64_t number = 0;  // from 0, within the channel
};

class Mixture {
 public:
  // Weights are relative; 0 is never drawn. Negative, infinite or NaN, or none above 0: ConfigError.
  explicit Mixture(const std::vector<double>& weights);
  Draw draw(int64_t n) const;                   // n >= 0
  int64_t count(int channel, int64_t n) const;  // among the draws 0 ... n - 1
  int num_channels() const { return static_cast<int>(shares_.size()); }

 private:
  // shares_[c]: share of channel c in what the channels before it leave, times 2^62.
  std::vector<uint64_t> shares_;
};

}  // namespace athanor
