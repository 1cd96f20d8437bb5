#include "athanor/engine/load_balance_plan.h"

#include <bit>
#include <utility>

#include "athanor/parallel/data/micro_batch_shares.h"
#include "athanor/parallel/data/pass_plan.h"

namespace athanor::engine {

// In the first distribution this rank has the most micro-batches possible. In each further one it holds more partial
// sums of the tree: ranks before it take some of its micro-batches, so that its leaves begin elsewhere.
PlannedShares::PlannedShares(const Training& training, int64_t micro_batches_of_step) : training_(training) {
  const Layout& layout = training.layout();
  const int parts = layout.cp;
  if (layout.shares != Shares::by_speed || layout.servers > 0) return;
  const Group& sharing = *training.groups().balance;
  const int units = layout.replica_group_ranks();
  const int unit = balance_units(layout, sharing.size())[static_cast<size_t>(sharing.rank())];
  if (units == 1) return;
  const int64_t micro_batches = training.role->summed_micro_batches(micro_batches_of_step),
                part = training.groups().dense.sum->rank() % parts;
  MicroBatchShares shares(*training.groups().dense.sum, parts);
  const auto consider = [&](int64_t before) {
    std::vector<int64_t> counts(static_cast<size_t>(units), 1);
    if (unit > 0) counts[0] = before - (unit - 1);
    counts[static_cast<size_t>(unit)] = micro_batches - before - (units - 1 - unit);
    shares.set(counts);
    const int64_t buffers =
        plan_pass(shares.own_leaves(micro_batches), shares.num_leaves(micro_batches)).num_buffers;
    if (buffers <= buffers_) return;
    buffers_ = buffers;
    counts_.push_back(std::move(counts));
  };
  consider(unit);
  // This rank's leaves begin at leaf `end`. [0, end) is one tree node per set bit of `end`. Fewer bits there mean more
  // nodes, and so more partial sums, for what follows; one bit is the worst case.
  int64_t end = part * micro_batches + unit - 1;
  for (int64_t size = 2; unit > 0 && std::popcount(static_cast<uint64_t>(end)) > 1; size *= 2) {
    end = (end + size - 1) / size * size;
    const int64_t before = end + 1 - part * micro_batches;
    if (before > micro_batches - (units - unit)) break;
    consider(before);
  }
}

void PlannedShares::use(size_t i) const {
  training_.role->gradients()->share_micro_batches(counts_.at(i));
}

}  // namespace athanor::engine
