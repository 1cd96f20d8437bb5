#include "athanor/corpus/dedup/components.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {
namespace {

uint64_t checked_count(uint64_t num_documents) {
  base::check(num_documents <= std::numeric_limits<uint32_t>::max(),
              "dedup: got {} documents, expected less than 2^32", num_documents);
  return num_documents;
}

}  // namespace

Components::Components(uint64_t num_documents)
    : parents_(checked_count(num_documents)), num_components_(num_documents) {
  std::iota(parents_.begin(), parents_.end(), 0U);
}

uint64_t Components::kept_of(uint64_t document) {
  base::check(document < parents_.size(), "dedup: got document {}, expected one of {}", document,
              parents_.size());
  auto at = static_cast<uint32_t>(document);
  while (parents_[at] != at) {
    parents_[at] = parents_[parents_[at]];
    at = parents_[at];
  }
  return at;
}

void Components::join(uint64_t left, uint64_t right) {
  const uint64_t left_root = kept_of(left), right_root = kept_of(right);
  if (left_root == right_root) return;
  parents_[std::max(left_root, right_root)] = static_cast<uint32_t>(std::min(left_root, right_root));
  --num_components_;
}

}  // namespace athanor::corpus::dedup
