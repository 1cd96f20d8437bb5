#include "athanor/parallel/data/local_sgd.h"

namespace athanor::parallel::data {

OuterSync::OuterSync(const std::vector<std::unique_ptr<Param>>& params, const OuterRanks& ranks, Arena& arena,
                     const OuterOptions& options)
    : across_(*ranks.across), every_(options.every) {
  std::vector<Param*> dense, experts;
  for (const auto& param : params)
    if (!param->is_state())
      (param->is_stack() && ranks.expert_inner != nullptr ? experts : dense).push_back(param.get());
  groups_.emplace_back(std::move(dense), *ranks.inner, across_, arena, options);
  if (!experts.empty())
    groups_.emplace_back(std::move(experts), *ranks.expert_inner, across_, arena, options);
}

void OuterSync::begin() {
  if (begun_) return;
  begun_ = true;
  for (OuterGroup& group : groups_) group.begin();
}

void OuterSync::sync() {
  for (OuterGroup& group : groups_) group.sync();
}

bool OuterSync::is_true_everywhere(bool here) {
  double others = here ? 0.0 : 1.0;
  across_.all_reduce(&others, 1, Dtype::f64, "agreement of replica groups").wait();
  return others == 0.0;
}

std::vector<OuterPiece> OuterSync::pieces() const {
  std::vector<OuterPiece> pieces;
  for (const OuterGroup& group : groups_) group.add_pieces(pieces);
  return pieces;
}

std::vector<OuterResidual> OuterSync::residuals() const {
  std::vector<OuterResidual> residuals;
  for (const OuterGroup& group : groups_) group.add_residuals(residuals);
  return residuals;
}

}  // namespace athanor::parallel::data
