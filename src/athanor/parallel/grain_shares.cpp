#include "athanor/parallel/grain_shares.h"

#include <numeric>

#include "athanor/base/check.h"

namespace athanor {

LeafRange GrainShares::grains(int64_t num_grains, int rank) const {
  const int sharing = ranks_ / parts_, place = rank / parts_;
  if (counts_.empty()) return grains_of_rank(num_grains, sharing, place);
  check(std::ssize(counts_) == sharing &&
            std::accumulate(counts_.begin(), counts_.end(), int64_t{0}) == num_grains,
        "data parallel: the shares of {} ranks are not those of {} micro-batches for {} ranks",
        counts_.size(), num_grains, sharing);
  const int64_t first = std::accumulate(counts_.begin(), counts_.begin() + place, int64_t{0});
  return {first, first + counts_[static_cast<size_t>(place)]};
}

LeafRange GrainShares::leaves(int64_t num_grains, int rank) const {
  const auto [first, last] = grains(num_grains, rank);
  const int64_t of_part = rank % parts_ * num_grains;
  return {of_part + first, of_part + last};
}

std::vector<int64_t> GrainShares::own_grains(int64_t num_grains) const {
  const auto [first, last] = grains(num_grains, own_);
  std::vector<int64_t> grains(static_cast<size_t>(last - first));
  std::iota(grains.begin(), grains.end(), first);
  return grains;
}

}  // namespace athanor
