#include "athanor/optim/optimizer.h"

#include "athanor/optim/adamw.h"
#include "athanor/optim/lamb.h"
#include "athanor/optim/sgd.h"

namespace athanor::optim {

void Optimizer::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  const auto grad_of = [&](const OptimizerPiece& piece) {
    return grad(piece.param).flat(piece.first, piece.count());
  };
  state_.update(
      [&](std::span<const OptimizerPiece> pieces) {
        update(pieces, grad_of, step);
        for (const OptimizerPiece& piece : pieces) piece.param.note_change();
      },
      step.grads_stay);
}

float Optimizer::weight_decay_of(const ParamSpec& param) const {
  const ParamGroup* group = group_of(options_.groups, param.name());
  if (group != nullptr && group->weight_decay) return static_cast<float>(*group->weight_decay);
  return param.is_matrix() ? static_cast<float>(options_.weight_decay) : 0.0f;
}

float Optimizer::lr_ratio_of(const ParamSpec& param) const {
  const ParamGroup* group = group_of(options_.groups, param.name());
  return group != nullptr ? static_cast<float>(group->lr_ratio) : 1.0f;
}

std::vector<Optimizer::State> Optimizer::states() {
  std::vector<State> states;
  for (size_t p = 0; p < state_.params().size(); ++p)
    for (size_t s = 0; s < state_.kinds().size(); ++s)
      states.push_back({.name = state_.kinds()[s].name,
                        .param = state_.params()[p],
                        .tensor = state_.resident(p, s),
                        .keeper = &state_,
                        .param_index = p,
                        .state_index = s});
  return states;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const std::vector<std::unique_ptr<Param>>& params,
                                          OptimizerStateOptions state,
                                          std::function<TensorRanks(const Param&)> ranks_of) {
  std::vector<Param*> list;
  for (const auto& param : params)
    if (!param->is_state()) list.push_back(param.get());
  if (options.name == "adamw") return std::make_unique<AdamW>(options, std::move(list), std::move(state));
  if (options.name == "lamb")
    return std::make_unique<Lamb>(options, std::move(list), std::move(state), std::move(ranks_of));
  if (options.name == "sgd") return std::make_unique<Sgd>(options, std::move(list), std::move(state));
  fail("optimizer: got '{}', expected adamw, lamb or sgd", options.name);
}

}  // namespace athanor::optim
