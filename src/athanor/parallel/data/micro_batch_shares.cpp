#include "athanor/parallel/data/micro_batch_shares.h"

#include <numeric>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

LeafRange MicroBatchShares::micro_batches(int64_t num_micro_batches, int rank) const {
  const int sharing = ranks_ / parts_, place = rank / parts_;
  if (counts_.empty()) return micro_batches_of_rank(num_micro_batches, sharing, place);
  check(std::ssize(counts_) == sharing &&
            std::accumulate(counts_.begin(), counts_.end(), int64_t{0}) == num_micro_batches,
        "data parallel: got numbers of micro-batches for {} ranks, expected {} micro-batches over {} ranks",
        counts_.size(), num_micro_batches, sharing);
  const int64_t first = std::accumulate(counts_.begin(), counts_.begin() + place, int64_t{0});
  return {first, first + counts_[static_cast<size_t>(place)]};
}

LeafRange MicroBatchShares::leaves(int64_t num_micro_batches, int rank) const {
  const auto [first, last] = micro_batches(num_micro_batches, rank);
  const int64_t of_part = rank % parts_ * num_micro_batches;
  return {of_part + first, of_part + last};
}

std::vector<int64_t> MicroBatchShares::own_micro_batches(int64_t num_micro_batches) const {
  const auto [first, last] = micro_batches(num_micro_batches, own_);
  std::vector<int64_t> micro_batches(static_cast<size_t>(last - first));
  std::iota(micro_batches.begin(), micro_batches.end(), first);
  return micro_batches;
}

}  // namespace athanor::parallel::data
