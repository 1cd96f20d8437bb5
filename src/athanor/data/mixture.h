// The data mixture: which channel the n-th sequence of a run comes from, and how many sequences of that channel came
// before it. A pure function of n, exact in integers, with no state and no index built in advance (law 3).
//
//   const Mixture mixture({0.7, 0.3});
//   const Draw draw = mixture.draw(n);            // draw.channel, draw.number
//   mixture.count(1, n);                          // how many of the first n came from channel 1
//
// The channels are spread as evenly as integers allow, as Bresenham's algorithm spreads the steps of a line. The
// channels, heaviest first, are divided into two halves of about equal weight. Of the first n sequences the first half
// gets round(n * its share) and the second half the rest; each half is divided in the same way. So for every n, not
// only in the long run, every channel has its share to within two sequences, however many channels there are. The
// numbers of a channel come in order, so its epochs follow each other without overlap.
//
// Shares are fixed-point with 62 bits. A call takes at most O(channels), and O(log channels) if weights are alike.
// Thread rule: const, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::data {

struct Draw {
  int channel = 0;
  int64_t number = 0;  // from 0, within the channel
};

class Mixture {
 public:
  // Weights are relative; a channel with weight 0 is never drawn. ConfigError for a negative, infinite or NaN weight,
  // or if no weight is above 0.
  explicit Mixture(const std::vector<double>& weights);
  Draw draw(int64_t n) const;                   // n >= 0
  int64_t count(int channel, int64_t n) const;  // among the draws 0 ... n - 1
  int num_channels() const { return static_cast<int>(places_.size()); }

 private:
  // A half is one channel, or a node that divides it further.
  struct Half {
    int node = -1;     // -1: the half is one channel
    int channel = -1;  // -1: the half is a node
  };
  struct Node {
    uint64_t share;  // the first half's share of the node's weight, times 2^62
    Half first, second;
  };
  // One step of the path from the root to a channel: a node, and which half of it.
  struct Place {
    int node;
    bool second;
  };
  Half divide(const std::vector<int>& channels, const std::vector<double>& weights, std::vector<Place>& path);

  Half root_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Place>> places_;  // the path to each channel
  std::vector<bool> drawn_;                 // whether a channel's weight is above 0
};

// What a channel asks of the mixture: a weight, or so many times through it, or so many tokens.
struct ChannelAsk {
  std::string name;
  double weight = 1.0, epochs = 0.0;
  int64_t tokens = 0;
  int64_t train_sequences = 0, train_tokens = 0;  // that it has
};

struct MixtureAsk {
  double temperature = 0.0;             // above 0: shares are train_tokens^(1 / temperature)
  int64_t steps = 1, global_batch = 1;  // of the run or phase
  int64_t seq_len = 1;
};

// The weights of Mixture that give each channel what it asks for. Epochs and tokens are met to within two sequences, and
// channels with weights share the rest. ConfigError naming channel and key for what cannot be met: two keys of one channel,
// budgets beside a temperature, more than is drawn, or budgets alone that do not add up to the steps (to within one).
std::vector<double> mixture_weights(std::span<const ChannelAsk> channels, const MixtureAsk& ask);

}  // namespace athanor::data
