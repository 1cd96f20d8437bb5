#include "athanor/engine/held_out.h"

namespace athanor::engine {

double sum_of_tokens(const Tensor& losses) {
  std::vector<float> per_token(static_cast<size_t>(losses.numel()));
  copy_to_host(per_token.data(), losses, losses.size_bytes());
  double sum = 0.0;
  for (const float value : per_token) sum += static_cast<double>(value);
  return sum;
}

}  // namespace athanor::engine
