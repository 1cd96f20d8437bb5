#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class GlobalRule : public MaskRule {
 public:
  GlobalRule(int64_t first, int64_t last, int64_t length) : end_(first), begin_(length - last) {}
  uint64_t row(int64_t query, int64_t first_key) const override {
    if (query < end_ || query >= begin_) return ~uint64_t{0};
    return keys_between(-1, end_, first_key) | keys_between(begin_, kFar, first_key);
  }
  Seen block(const PairBlock& block) const override {
    if (all(block.query, block.queries) || all(block.key, block.keys)) return Seen::all;
    return any(block.query, block.queries) || any(block.key, block.keys) ? Seen::some : Seen::none;
  }

 private:
  bool any(int64_t first, int64_t count) const { return first < end_ || first + count > begin_; }
  bool all(int64_t first, int64_t count) const {
    return first + count <= end_ || first >= begin_ || end_ >= begin_;
  }
  int64_t end_, begin_;  // those before `end_` and those from `begin_` on are global
};

}  // namespace

const TermKind kGlobal = {
    .name = "global",
    .form = "global:n[,m]",
    .meaning = "the first n positions and the last m see all and are seen by all",
    .fewest = 1,
    .most = 2,
    .expected = [](const Numbers& numbers) -> std::string {
      return numbers[0] + numbers[1] > 0 ? "" : "at least one position";
    },
    .fewest_positions = [](const Numbers& numbers) { return numbers[0] + numbers[1] + 1; },
    .make = [](const Numbers& numbers, const TermPlace& place) -> std::unique_ptr<MaskRule> {
      return std::make_unique<GlobalRule>(numbers[0], numbers[1], place.length);
    }};

}  // namespace athanor::masks::kinds
