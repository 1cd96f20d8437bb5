#include "athanor/chaos/draw.h"

#include <algorithm>
#include <string>

#include "athanor/base/check.h"
#include "athanor/chaos/fault.h"

namespace athanor::chaos {
namespace {

// A control strikes well before the end: what comes after the last step may do no harm.
constexpr double kControlShare = 0.9;

void draw_rest(Draw& draw, Dice& dice, const std::vector<const Fault*>& faults, int num_ranks) {
  draw.instant = dice.uniform();
  draw.second = dice.uniform();
  draw.ranks = faults[draw.fault]->draw_ranks(dice, num_ranks);
}

}  // namespace

Dice::Dice(uint64_t seed, std::string_view stream, int64_t trial)
    : stream_(seed, stream), trial_(static_cast<uint64_t>(trial)) {}

double Dice::uniform() {
  const uint64_t high = stream_.word(next_, trial_), low = stream_.word(next_ + 1, trial_);
  next_ += 2;
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

int Dice::below(int count) {
  check(count >= 1, "chaos: a draw from {} numbers", count);
  return std::min(static_cast<int>(uniform() * count), count - 1);
}

std::vector<int> Dice::choose(int count, int size, const std::vector<int>& without) {
  std::vector<int> all;
  for (int number = 0; number < size; ++number)
    if (std::find(without.begin(), without.end(), number) == without.end()) all.push_back(number);
  check(count <= static_cast<int>(all.size()), "chaos: a draw of {} from {} numbers", count, all.size());
  for (int i = 0; i < count; ++i) {
    const int other = i + below(static_cast<int>(all.size()) - i);
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(other)]);
  }
  all.resize(static_cast<size_t>(count));
  return all;
}

Draw draw_trial(uint64_t seed, int64_t trial, const std::vector<const Fault*>& faults, int num_ranks) {
  Dice dice(seed, "chaos", trial);
  Draw draw{.trial = trial};
  draw.fault = static_cast<size_t>(dice.below(static_cast<int>(faults.size())));
  draw_rest(draw, dice, faults, num_ranks);
  return draw;
}

Draw draw_control(uint64_t seed, size_t fault, const std::vector<const Fault*>& faults, int num_ranks) {
  Dice dice(seed, std::string("chaos control ") + faults[fault]->text().name, 0);
  Draw draw{.fault = fault};
  draw_rest(draw, dice, faults, num_ranks);
  draw.instant *= kControlShare;
  return draw;
}

}  // namespace athanor::chaos
