#include "athanor/parallel/data/data_parallel.h"

#include <algorithm>
#include <utility>

#include "athanor/parallel/expert/expert_groups.h"

namespace athanor::parallel::data {

DataParallel::DataParallel(const std::vector<Weight*>& weights, const DataParallelRanks& ranks, Arena& arena,
                           const DataParallelOptions& options)
    : step_part_(options.step_part),
      num_step_parts_(options.num_step_parts),
      expert_parts_(ranks.experts ? ranks.experts->parts : 1),
      clock_(options.trace, options.clock) {
  const auto add = [&](const std::vector<Weight*>& some, const GradientRanks& its) {
    groups_.push_back(std::make_unique<GroupGradients>(some, its, arena, options, clock_, log_));
  };
  add(ranks.experts ? weights_apart(weights, /*experts=*/false) : weights, ranks.dense);
  if (!ranks.experts) return;
  GradientRanks experts = *ranks.experts;
  experts.parts = std::max(1, experts.parts);
  if (const std::vector<Weight*> some = weights_apart(weights, /*experts=*/true); !some.empty())
    add(some, experts);
}

void DataParallel::allocate() {
  for (const auto& group : groups_) group->allocate();
}

void DataParallel::share_micro_batches(std::vector<int64_t> counts) {
  check(groups_.size() == 1 || expert_parts_ > 0,
        "data parallel: got unequal numbers of micro-batches with an ep group over several of them");
  for (const auto& group : groups_) group->store().share_micro_batches(counts);
}

LeafRange DataParallel::summed_micro_batches(int64_t num_micro_batches) const {
  return micro_batches_of_rank(num_micro_batches, num_step_parts_, step_part_);
}

std::vector<int64_t> DataParallel::micro_batches_of_step(int64_t num_micro_batches) const {
  const int ranks = groups_.front()->num_sharing() * num_step_parts_;
  check(ranks <= num_micro_batches,
        "data parallel: got {} ranks for {} micro-batches in a step, expected at most {}", ranks,
        num_micro_batches, num_micro_batches);
  const auto [first, last] = summed_micro_batches(num_micro_batches);
  std::vector<int64_t> micro_batches = groups_.front()->store().micro_batches_of_step(last - first);
  for (int64_t& micro_batch : micro_batches) micro_batch += first;
  return micro_batches;
}

void DataParallel::begin_step(const GradientStep& step) {
  clock_.reset();
  log_.begin();
  const auto [first, last] = summed_micro_batches(step.num_micro_batches);
  GradientStep own = step;
  own.num_micro_batches = last - first;
  const GroupGradients& dense = *groups_.front();
  groups_.front()->begin_step(own);
  if (groups_.size() == 1) return;
  GroupGradients& experts = *groups_.back();
  GradientStep of_experts = step;
  of_experts.num_micro_batches =
      expert_micro_batches(last - first, expert_parts_, dense.num_sharing(), experts.num_ranks());
  check_expert_micro_batches(dense.store().micro_batches_of_step(last - first),
                             experts.store().micro_batches_of_step(of_experts.num_micro_batches),
                             expert_parts_);
  experts.begin_step(of_experts);
}

void DataParallel::end_micro_batch() {
  for (const auto& group : groups_) group->end_micro_batch();
  log_.end();
}

void DataParallel::go_idle() {
  if (std::none_of(groups_.begin(), groups_.end(),
                   [](const auto& group) { return group->store().misses_round(); }))
    return;
  log_.repeat();
  end_micro_batch();
}

void DataParallel::finish() {
  go_idle();
  for (const auto& group : groups_) group->finish();
}

void DataParallel::publish() {
  for (const auto& group : groups_) group->publish();
}

void DataParallel::settle() {
  for (const auto& group : groups_) group->settle();
}

void DataParallel::skip_step() {
  for (const auto& group : groups_) group->skip_step();
}

bool DataParallel::sums_gradients() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& group) { return group->sums_gradients(); });
}

std::vector<double> DataParallel::sum_squares(const std::vector<std::unique_ptr<Param>>& params) const {
  std::vector<double> sums(params.size(), 0.0);
  for (const auto& group : groups_) group->sum_squares(params, sums);
  return sums;
}

std::vector<ExchangeState> DataParallel::exchange_states() const {
  std::vector<ExchangeState> states;
  for (const auto& group : groups_)
    for (const ExchangeState& state : group->exchange_states()) states.push_back(state);
  return states;
}

uint64_t DataParallel::buffer_bytes() const {
  uint64_t bytes = 0;
  for (const auto& group : groups_) bytes += group->store().buffer_bytes();
  return bytes;
}

}  // namespace athanor::parallel::data
