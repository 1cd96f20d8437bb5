#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class FixedRule : public MaskRule {
 public:
  FixedRule(int64_t size, int64_t columns) : size_(size), columns_(columns), own_(size, 0) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    uint64_t keys = own_.row(query, first_key);
    for (int64_t part = first_key / size_ * size_; part < first_key + 64; part += size_)
      keys |= keys_between(part + size_ - columns_, part + size_, first_key);
    return keys;
  }
  Seen block(const PairBlock& block) const override {
    if (block.key % size_ >= size_ - columns_ && block.key % size_ + block.keys <= size_) return Seen::all;
    const bool any = block.key % size_ + block.keys > size_ - columns_;
    const Seen own = own_.block(block);
    return any && own == Seen::none ? Seen::some : own;
  }

 private:
  int64_t size_, columns_;
  EqualParts own_;
};

}  // namespace

const TermKind kFixed = {.name = "fixed",
                         .form = "fixed:s,c",
                         .meaning =
                             "i/s = j/s, rounded down, or j is one of the last c of its s positions (Sparse "
                             "Transformer, with causal)",
                         .is_repeatable = true,
                         .fewest = 2,
                         .most = 2,
                         .expected = [](const Numbers& numbers) -> std::string {
                           return numbers[1] <= numbers[0] ? "" : "c of at most s";
                         },
                         .fewest_positions = [](const Numbers& numbers) { return numbers[0]; },
                         .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                           return std::make_unique<FixedRule>(numbers[0], numbers[1]);
                         }};

}  // namespace athanor::masks::kinds
