// What a trial of a campaign does, drawn from (seed, number of the trial): the same for the same seed, whatever the machine
// does and however many trials there are.
//
//   const Draw draw = draw_trial(seed, trial, faults, /*num_ranks=*/3);
//   faults[draw.fault]->inject(job, draw);                                // faults.h
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "athanor/base/philox.h"

namespace athanor::chaos {

class Fault;

class Dice {
 public:
  Dice(uint64_t seed, std::string_view stream, int64_t trial);
  double uniform();      // [0, 1), 53 bits
  int below(int count);  // 0 ... count - 1
  // `count` of the numbers 0 ... size - 1, in random order, without those in `without`.
  std::vector<int> choose(int count, int size, const std::vector<int>& without = {});

 private:
  RandomStream stream_;
  uint64_t trial_, next_ = 0;
};

struct Draw {
  int64_t trial = 0;
  size_t fault = 0;          // which of the campaign's kinds
  std::vector<int> ranks{};  // that it strikes, in this order; empty: none in particular
  double instant = 0.0;      // when, as a fraction of the undisturbed run's training time: [0, 1)
  double second = 0.0;       // what else a kind has to choose: [0, 1)
  bool is_control = false;   // the protection is off
};

Draw draw_trial(uint64_t seed, int64_t trial, const std::vector<const Fault*>& faults, int num_ranks);
// Of the negative control of one kind, which is not one of the trials.
Draw draw_control(uint64_t seed, size_t fault, const std::vector<const Fault*>& faults, int num_ranks);

}  // namespace athanor::chaos
