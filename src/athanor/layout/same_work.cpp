#include "athanor/layout/same_work.h"

namespace athanor::layout {

int64_t same_work(const Layout& layout, const TrainConfig& train, int rank) {
  const bool is_even =
      train.global_batch_size % train.micro_batch_size == 0 && layout.micro_batches % layout.dp() == 0;
  if (layout.servers > 0 || layout.ep > 1 || layout.shares == Shares::by_speed || !is_even) return -1;
  const int stage = rank / (layout.training_ranks() / layout.pp), part = rank / layout.tp % layout.cp;
  return int64_t{stage} * layout.cp + part;
}

}  // namespace athanor::layout
