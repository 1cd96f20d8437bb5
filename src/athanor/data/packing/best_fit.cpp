#include "athanor/data/packing/best_fit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data::packing {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// A set of numbers below a limit that finds the least one from a number on, in O(log limit) words.
class NumberSet {
 public:
  explicit NumberSet(int64_t limit) {
    for (int64_t size = limit; levels_.empty() || size > 1;) {
      size = (size + 63) / 64;
      levels_.emplace_back(static_cast<size_t>(size), 0);
    }
  }
  void insert(int64_t number) {
    for (auto& level : levels_) {
      level[static_cast<size_t>(number / 64)] |= uint64_t{1} << (number % 64);
      number /= 64;
    }
  }
  void erase(int64_t number) {
    for (auto& level : levels_) {
      uint64_t& word = level[static_cast<size_t>(number / 64)];
      word &= ~(uint64_t{1} << (number % 64));
      if (word != 0) return;
      number /= 64;
    }
  }
  int64_t first_from(int64_t number) const {  // -1: none
    size_t level = 0;
    for (; level < levels_.size(); ++level) {
      const auto at = static_cast<size_t>(number / 64);
      if (at >= levels_[level].size()) return -1;
      const uint64_t word = levels_[level][at] >> (number % 64) << (number % 64);
      if (word != 0) {
        number = static_cast<int64_t>(at) * 64 + std::countr_zero(word);
        break;
      }
      number = number / 64 + 1;
    }
    if (level == levels_.size()) return -1;
    while (level > 0) {
      --level;
      number = number * 64 + std::countr_zero(levels_[level][static_cast<size_t>(number)]);
    }
    return number;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;
};

// Sequences by their free places.
class OpenBins {
 public:
  explicit OpenBins(int64_t seq_len)
      : seq_len_(seq_len), sizes_(seq_len + 1), last_(static_cast<size_t>(seq_len) + 1, kNone) {}
  // The sequence that a rest goes to.
  uint32_t take(int64_t rest) {
    const int64_t free = sizes_.first_from(rest);
    const auto bin = free < 0 ? static_cast<uint32_t>(before_.size()) : last_[static_cast<size_t>(free)];
    if (free < 0) {
      before_.push_back(kNone);
    } else if ((last_[static_cast<size_t>(free)] = before_[bin]) == kNone) {
      sizes_.erase(free);
    }
    const int64_t left = (free < 0 ? seq_len_ : free) - rest;
    if (left == 0) return bin;
    before_[bin] = std::exchange(last_[static_cast<size_t>(left)], bin);
    sizes_.insert(left);
    return bin;
  }
  int64_t count() const { return static_cast<int64_t>(before_.size()); }

 private:
  int64_t seq_len_;
  NumberSet sizes_;
  std::vector<uint32_t> last_;    // of the sequences with so many free places
  std::vector<uint32_t> before_;  // of each sequence, in the list that it is in
};

// Documents with a rest, the longest first and those alike in their order. `counts` [seq_len + 1]: of each rest.
std::vector<uint32_t> by_length(const std::vector<uint32_t>& rests, const std::vector<uint32_t>& counts) {
  std::vector<uint32_t> place(counts.size(), 0);  // of the next document of each rest
  uint32_t total = 0;
  for (size_t rest = counts.size() - 1; rest > 0; --rest) {
    place[rest] = total;
    total += counts[rest];
  }
  std::vector<uint32_t> order(total);
  for (uint32_t d = 0; d < rests.size(); ++d)
    if (rests[d] > 0) order[place[rests[d]]++] = d;
  return order;
}

}  // namespace

BestFit::BestFit(std::vector<int64_t> starts, int64_t seq_len)
    : starts_(std::move(starts)), seq_len_(seq_len) {
  check(seq_len >= 1 && seq_len < kNone, "packing: got a seq_len of {}, expected 1 to 2^32 - 2", seq_len);
  check(!starts_.empty() && starts_.size() <= kNone, "packing: got {} documents, expected fewer than 2^32",
        starts_.size());
  const size_t documents = starts_.size() - 1;
  std::vector<uint32_t> rests(documents), counts(static_cast<size_t>(seq_len) + 1, 0);
  longs_.reserve(documents);  // address space; memory is what is written
  for (uint32_t d = 0; d < documents; ++d) {
    const int64_t targets = targets_of(d);
    num_targets_ += targets;
    int64_t whole = 0;
    if (targets >= seq_len_) {
      whole = targets / seq_len_;
      longs_.push_back({num_whole_, d});
      num_whole_ += whole;
    }
    rests[d] = static_cast<uint32_t>(targets - whole * seq_len_);
    ++counts[rests[d]];
  }
  const std::vector<uint32_t> order = by_length(rests, counts);
  std::vector<uint32_t> bin_of = std::move(rests);  // documents without a rest become kNone below
  if (counts[0] > 0) std::replace(bin_of.begin(), bin_of.end(), uint32_t{0}, kNone);
  OpenBins open(seq_len_);
  auto document = order.begin();
  for (size_t rest = counts.size() - 1; rest > 0; --rest)
    for (uint32_t left = counts[rest]; left > 0; --left)
      bin_of[*document++] = open.take(static_cast<int64_t>(rest));
  fill_bins(bin_of, open.count());
}

void BestFit::fill_bins(const std::vector<uint32_t>& bin_of, int64_t num_bins) {
  bins_.assign(static_cast<size_t>(num_bins) + 1, 0);
  for (const uint32_t bin : bin_of)
    if (bin != kNone) ++bins_[bin + 1];
  for (size_t b = 1; b < bins_.size(); ++b) bins_[b] += bins_[b - 1];
  documents_.resize(bins_.back());
  std::vector<uint32_t> next(bins_.begin(), bins_.end() - 1);
  for (uint32_t d = 0; d < bin_of.size(); ++d)
    if (bin_of[d] != kNone) documents_[next[bin_of[d]]++] = d;
}

int64_t BestFit::targets_of(uint32_t document) const {
  return std::max<int64_t>(starts_[document + size_t{1}] - starts_[document] - 1, 0);
}

Window BestFit::rest_of(uint32_t document) const {
  const int64_t targets = targets_of(document), whole = targets / seq_len_ * seq_len_;
  return {starts_[document] + whole, targets - whole};
}

std::vector<Window> BestFit::windows(int64_t sequence) const {
  check(sequence >= 0 && sequence < num_sequences(), "packing: sequence {}, expected 0 to {}", sequence,
        num_sequences() - 1);
  if (sequence < num_whole_) {
    const auto after = std::upper_bound(longs_.begin(), longs_.end(), sequence,
                                        [](int64_t at, const Long& each) { return at < each.sequence; });
    const Long& found = *(after - 1);
    return {{starts_[found.document] + (sequence - found.sequence) * seq_len_, seq_len_}};
  }
  const auto bin = static_cast<size_t>(sequence - num_whole_);
  std::vector<Window> windows;
  for (uint32_t i = bins_[bin]; i < bins_[bin + 1]; ++i) windows.push_back(rest_of(documents_[i]));
  return windows;
}

std::vector<int64_t> BestFit::sequences_with(int64_t token) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), token);
  std::vector<int64_t> sequences;
  if (after == starts_.begin() || after == starts_.end()) return sequences;
  const auto document = static_cast<uint32_t>(after - starts_.begin() - 1);
  const auto holds = [&](const Window& window) {
    return window.first <= token && token <= window.first + window.targets;
  };
  const auto found = std::lower_bound(longs_.begin(), longs_.end(), document,
                                      [](const Long& each, uint32_t at) { return each.document < at; });
  if (found != longs_.end() && found->document == document) {
    const int64_t at = token - starts_[document], whole = targets_of(document) / seq_len_;
    for (int64_t i = std::max<int64_t>(0, (at - 1) / seq_len_); i <= at / seq_len_ && i < whole; ++i)
      sequences.push_back(found->sequence + i);
  }
  if (const Window rest = rest_of(document); rest.targets > 0 && holds(rest)) {
    const auto place = std::find(documents_.begin(), documents_.end(), document) - documents_.begin();
    const auto bin =
        std::upper_bound(bins_.begin(), bins_.end(), static_cast<uint32_t>(place)) - bins_.begin();
    sequences.push_back(num_whole_ + bin - 1);
  }
  return sequences;
}

}  // namespace athanor::data::packing
