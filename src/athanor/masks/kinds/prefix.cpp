#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class PrefixRule : public MaskRule {
 public:
  explicit PrefixRule(int64_t length) : length_(length) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    return keys_between(-1, end(query), first_key);
  }
  Seen block(const PairBlock& block) const override {
    if (block.key >= end(block.query + block.queries - 1)) return Seen::none;
    return block.key + block.keys <= end(block.query) ? Seen::all : Seen::some;
  }

 private:
  int64_t end(int64_t query) const { return std::max(query + 1, length_); }
  int64_t length_;
};

}  // namespace

const TermKind kPrefix = {.name = "prefix",
                          .form = "prefix:p",
                          .meaning = "j <= i or j < p: all see the first p positions, the others are causal",
                          .use = TermUse::limits,
                          .fewest = 1,
                          .most = 1,
                          .fewest_positions = [](const Numbers& numbers) { return numbers[0]; },
                          .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
                            return std::make_unique<PrefixRule>(numbers[0]);
                          }};

}  // namespace athanor::masks::kinds
