#include "athanor/base/philox.h"
#include "athanor/masks/kinds/difference_rule.h"
#include "athanor/masks/kinds/join.h"

namespace athanor::masks::kinds {
namespace {

// The word of a block has an address (law 2) in which the length of the sequence has no part: what a causal pattern draws is
// the same at every length.
class BlockWords {
 public:
  explicit BlockWords(const TermPlace& place)
      : stream_(place.seed, "attention.random"),
        step_(static_cast<uint64_t>(place.layer) << 32 | static_cast<uint64_t>(place.head)) {}
  uint32_t operator()(int64_t query_block, int64_t key_block) const {
    return stream_.word(static_cast<uint64_t>(query_block) << 32 | static_cast<uint64_t>(key_block), step_);
  }

 private:
  RandomStream stream_;
  uint64_t step_;
};

class RandomRule : public MaskRule {
 public:
  RandomRule(int64_t count, int64_t size, const TermPlace& place) : size_(size) {
    const BlockWords words(place);
    const int64_t blocks = (place.length + size - 1) / size;
    std::vector<std::pair<uint32_t, int64_t>> open;
    for (int64_t query = 0; query < blocks; ++query) {
      open.clear();
      for (int64_t key = 0; key < blocks; ++key) {
        // Whole, even where the sequence ends within it: a longer one goes on from the same choice.
        const PairBlock block{query * size, size, key * size, size};
        if (!sees_any(*place.others, block) && sees_any(*place.limits, block))
          open.emplace_back(words(query, key), key);
      }
      const auto end = open.begin() + std::min(count, static_cast<int64_t>(open.size()));
      std::partial_sort(open.begin(), end, open.end());
      std::vector<int64_t>& chosen = chosen_.emplace_back();
      std::transform(open.begin(), end, std::back_inserter(chosen),
                     [](const auto& each) { return each.second; });
      std::sort(chosen.begin(), chosen.end());
    }
  }

  uint64_t row(int64_t query, int64_t first_key) const override {
    uint64_t keys = 0;
    for (const int64_t key : chosen(query / size_))
      keys |= keys_between(key * size_, (key + 1) * size_, first_key);
    return keys;
  }
  Seen block(const PairBlock& block) const override {
    const int64_t first = block.key / size_, last = (block.key + block.keys - 1) / size_;
    const int64_t end = (block.query + block.queries - 1) / size_ + 1;
    int64_t seen = 0, all = 0;
    for (int64_t query = block.query / size_; query < end; ++query, all += last - first + 1)
      for (const int64_t key : chosen(query)) seen += first <= key && key <= last ? 1 : 0;
    if (seen == 0) return Seen::none;
    return seen == all ? Seen::all : Seen::some;
  }

 private:
  // Ascending.
  std::span<const int64_t> chosen(int64_t query_block) const {
    const auto index = static_cast<size_t>(query_block);
    return index < chosen_.size() ? std::span<const int64_t>(chosen_[index]) : std::span<const int64_t>();
  }

  int64_t size_;
  std::vector<std::vector<int64_t>> chosen_;  // by block of queries
};

}  // namespace

const TermKind kRandom = {
    .name = "random",
    .form = "random:r[,b]",
    .meaning =
        "r blocks of b keys (64) for each block of b queries, drawn for each layer and head among those that "
        "the other "
        "terms leave unseen",
    .fewest = 1,
    .most = 2,
    .left_out = {0, 64},
    .fewest_positions = [](const Numbers& numbers) { return numbers[0] * numbers[1]; },
    .make = [](const Numbers& numbers, const TermPlace& place) -> std::unique_ptr<MaskRule> {
      return std::make_unique<RandomRule>(numbers[0], numbers[1], place);
    }};

}  // namespace athanor::masks::kinds
