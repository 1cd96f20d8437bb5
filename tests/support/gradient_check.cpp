#include "support/gradient_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/philox.h"

namespace athanor::tests {
namespace {

// The fixed coefficients c_i, in (-1, 1).
float coefficient(int64_t i) {
  return 2.0f * RandomStream(1, "gradient_check").uniform(static_cast<uint64_t>(i), 0) - 1.0f;
}

void compare(GradientReport& report, const std::string& name, const Tensor& value, const Tensor& analytic,
             float eps, const std::function<double()>& evaluate) {
  auto* x = value.data<float>();
  std::vector<double> numeric(static_cast<size_t>(value.numel()));
  double largest = 1.0;
  for (size_t i = 0; i < numeric.size(); ++i) {
    const float kept = x[i];
    x[i] = kept + eps;
    const double up = evaluate();
    const float high = x[i];
    x[i] = kept - eps;
    const double down = evaluate();
    const float low = x[i];
    x[i] = kept;
    numeric[i] = (up - down) / (static_cast<double>(high) - static_cast<double>(low));
    largest = std::max(largest, std::abs(numeric[i]));
  }
  for (size_t i = 0; i < numeric.size(); ++i) {
    const double got = analytic.data<float>()[i];
    const double gap = std::abs(got - numeric[i]) / largest;
    if (!(gap <= report.worst)) {  // catches NaN too
      report.worst = std::isnan(gap) ? HUGE_VAL : gap;
      report.where = fmt::format("{} [{}]: analytic {}, numeric {}", name, i, got, numeric[i]);
    }
  }
}

}  // namespace

GradientReport check_gradients(std::vector<Tensor> inputs, std::vector<Weight*> weights,
                               const std::function<Var(Tape&, std::span<const Var>)>& function, float eps,
                               PassContext context) {
  const auto evaluate = [&] {
    PassContext quiet = context;
    quiet.record = false;
    Tape tape(quiet);
    std::vector<Var> vars;
    vars.reserve(inputs.size());
    for (const Tensor& input : inputs) vars.push_back(tape.constant(input));
    const Tensor y = function(tape, vars).value;
    double sum = 0.0;
    for (int64_t i = 0; i < y.numel(); ++i)
      sum += static_cast<double>(coefficient(i)) * static_cast<double>(y.data<float>()[i]);
    return sum;
  };

  context.record = true;
  Tape tape(context);
  std::vector<Var> vars;
  vars.reserve(inputs.size());
  for (const Tensor& input : inputs) vars.push_back(tape.leaf(input));
  const Var y = function(tape, vars);
  Tensor dy = empty_like(y.value);
  for (int64_t i = 0; i < dy.numel(); ++i) dy.data<float>()[i] = coefficient(i);
  for (Weight* weight : weights)
    weight->set_grad(zeros(y.value.arena(), weight->value().shape(), Dtype::f32, Category::gradients));
  tape.backward(y, dy);

  GradientReport report;
  for (size_t i = 0; i < inputs.size(); ++i)
    compare(report, fmt::format("input {}", i), inputs[i], tape.grad(vars[i]), eps, evaluate);
  for (size_t i = 0; i < weights.size(); ++i)
    compare(report, "weight " + weights[i]->param().name(), weights[i]->value(), weights[i]->grad(), eps,
            evaluate);
  return report;
}

}  // namespace athanor::tests
