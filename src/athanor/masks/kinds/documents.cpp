#include <numeric>

#include "athanor/masks/kinds/difference_rule.h"

namespace athanor::masks::kinds {
namespace {

class DocumentsRule : public MaskRule {
 public:
  explicit DocumentsRule(const Numbers& lengths) : last_(lengths.back()), ends_(lengths.size()) {
    std::partial_sum(lengths.begin(), lengths.end(), ends_.begin());
  }
  uint64_t row(int64_t query, int64_t first_key) const override {
    const int64_t document = document_of(query);
    return keys_between(end_of(document - 1), end_of(document), first_key);
  }
  Seen block(const PairBlock& block) const override {
    const int64_t query = document_of(block.query), last_query = document_of(block.query + block.queries - 1);
    const int64_t key = document_of(block.key), last_key = document_of(block.key + block.keys - 1);
    if (last_query < key || last_key < query) return Seen::none;
    return query == last_query && key == last_key ? Seen::all : Seen::some;
  }

 private:
  int64_t document_of(int64_t position) const {
    if (position >= ends_.back())
      return static_cast<int64_t>(ends_.size()) + (position - ends_.back()) / last_;
    return std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin();
  }
  int64_t end_of(int64_t document) const {
    const auto listed = static_cast<int64_t>(ends_.size());
    if (document < 0) return 0;
    if (document < listed) return ends_[static_cast<size_t>(document)];
    return ends_.back() + (document - listed + 1) * last_;
  }

  int64_t last_;
  Numbers ends_;
};

}  // namespace

const TermKind kDocuments = {
    .name = "documents",
    .form = "documents:l1,l2,...",
    .meaning = "nobody sees out of its document: they have these lengths, the last one again and again",
    .use = TermUse::limits,
    .fewest = 1,
    .most = kAnyCount,
    .fewest_positions =
        [](const Numbers& numbers) {
          return std::accumulate(numbers.begin(), numbers.end() - 1, int64_t{1});
        },
    .make = [](const Numbers& numbers, const TermPlace&) -> std::unique_ptr<MaskRule> {
      return std::make_unique<DocumentsRule>(numbers);
    }};

}  // namespace athanor::masks::kinds
