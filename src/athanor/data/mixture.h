// Which channel the n-th sequence of a run comes from, and how many of that channel came before it: a pure
// function of n, exact in integers, with no state and no index built in advance (law 3).
//
//   const Mixture mixture({0.7, 0.3});
//   const Draw draw = mixture.draw(n);            // draw.channel, draw.number
//   mixture.count(1, n);                          // how many of the first n came from channel 1
//
// The channels are spread as evenly as integers allow, as Bresenham's algorithm spreads the steps of a line: of the
// first n sequences, the heavier channels, about half of the weight, have round(n * their share), the others what
// is left, and either half is divided in the same way. So at every n, not only in the long run, every channel has
// its share to within two sequences, however many channels there are, and the numbers of a channel come in order:
// its epochs follow each other without overlap.
//
// Shares are fixed-point with 62 bits. At most O(channels) per call, O(log channels) where weights are alike.
// Thread rule: const, any thread.
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
  int num_channels() const { return static_cast<int>(places_.size()); }

 private:
  // A division of channels in two.
  struct Half {
    int node = -1;  // that divides it further, or none: it is one channel
    int channel = -1;
  };
  struct Node {
    uint64_t share;  // of the first half in both, times 2^62
    Half first, second;
  };
  // Where a channel is found: the node, from the root on, and which half of it.
  struct Place {
    int node;
    bool second;
  };
  Half divide(const std::vector<int>& channels, const std::vector<double>& weights, std::vector<Place>& path);

  Half root_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Place>> places_;  // of each channel
  std::vector<bool> drawn_;                 // whether a channel has weight
};

}  // namespace athanor
