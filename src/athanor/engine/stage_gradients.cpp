#include "athanor/engine/stage_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/parallel/tensor/tensor_parallel.h"

namespace athanor::engine {

void StageGradients::sum_shared(const std::function<Tensor(Param&)>& grad_of,
                                const std::function<void(Param&, const Tensor&)>& changed) const {
  std::vector<std::pair<Param*, Tensor>> sums;
  const auto open = [&](Param& param) -> const Tensor& {
    sums.emplace_back(&param, grad_of(param));
    return sums.back().second;
  };
  const auto keep = [&] {
    for (const auto& [param, sum] : sums) changed(*param, sum);
    sums.clear();
  };
  if (groups_.tensor != nullptr) sum_partial_gradients(model_.params(), open, *groups_.tensor);
  keep();
  if (groups_.ends == nullptr) return;
  for (const auto& param : model_.params()) {
    if (param->num_uses() == param->uses().size()) continue;
    const Tensor& grad = open(*param);  // embedding plus head on both ranks, the sum that one process makes
    if (grad.numel() > 0)
      groups_.ends->all_reduce(grad.data<float>(), grad.numel(), Dtype::f32, param->name()).wait();
  }
  keep();
}

// Squares of all parameters in declaration order; 0 for a parameter that another rank counts.
std::vector<double> StageGradients::squares_of_stage(const std::vector<double>& of_params) const {
  const std::vector<const ParamSpec*>& declared = groups_.declared;
  std::vector<double> all(declared.size(), 0.0), of_experts(declared.size(), 0.0);
  for (size_t i = 0; i < of_params.size(); ++i) {
    const Param* param = model_.params()[i].get();
    const auto place =
        static_cast<size_t>(std::find(declared.begin(), declared.end(), param) - declared.begin());
    const bool is_expert = groups_.experts != nullptr && param->is_stack();
    const bool elsewhere = groups_.ends != nullptr && param->is_second_copy();  // counted where it embeds
    if (is_expert)
      of_experts[place] = of_params[i];
    else if (param->is_first_copy() && !elsewhere)
      all[place] = of_params[i];
  }
  if (groups_.experts == nullptr) return all;
  groups_.experts->all_reduce(of_experts.data(), std::ssize(of_experts), Dtype::f64, "norms of experts")
      .wait();
  const bool counts = groups_.tensor == nullptr || groups_.tensor->rank() == 0;
  for (size_t i = 0; i < all.size(); ++i) all[i] += counts ? of_experts[i] : 0.0;
  return all;
}

std::string StageGradients::not_finite(const Norm& norm) const {
  std::vector<double> broken;
  for (const double each : norm.squares) broken.push_back(std::isfinite(each) ? 0.0 : 1.0);
  if (groups_.tensor != nullptr)
    groups_.tensor->all_reduce(broken.data(), std::ssize(broken), Dtype::f64, "gradients not finite").wait();
  const auto first = std::find_if(broken.begin(), broken.end(), [](double count) { return count > 0.0; });
  if (first == broken.end())
    return std::isfinite(norm.value)
               ? ""
               : "the norm of the gradients is not finite";  // each is, their sum is not
  const ParamSpec& param = *groups_.declared[static_cast<size_t>(first - broken.begin())];
  return fmt::format("the gradient of '{}' is not finite", param.name());
}

// Squares are added in declaration order, whichever rank has which stage.
StageGradients::Norm StageGradients::norm(const std::vector<double>& of_params) const {
  std::vector<double> all = squares_of_stage(of_params);
  if (groups_.pipeline != nullptr)
    groups_.pipeline->all_reduce(all.data(), std::ssize(all), Dtype::f64, "norms of stages").wait();
  double squares = 0.0;
  for (const double each : all) squares += each;
  if (groups_.tensor != nullptr) groups_.tensor->all_reduce(&squares, 1, Dtype::f64, "gradient norm").wait();
  return {std::sqrt(squares), std::move(all)};
}

}  // namespace athanor::engine
