#include "athanor/nn/rope_table.h"

#include <cmath>
#include <vector>

namespace athanor::nn {

RopeTable make_rope_table(Arena& arena, int64_t positions, int64_t head_dim, double base) {
  check(head_dim % 2 == 0, "rope: head_dim {} must be even", head_dim);
  const int64_t half = head_dim / 2;
  RopeTable table{empty(arena, {positions, half}, Dtype::f32, Category::parameters),
                  empty(arena, {positions, half}, Dtype::f32, Category::parameters)};
  if (arena.queue().device() == Device::null) return table;
  std::vector<float> cos(static_cast<size_t>(positions * half)), sin(cos.size());
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      cos[static_cast<size_t>(p * half + i)] = static_cast<float>(std::cos(angle));
      sin[static_cast<size_t>(p * half + i)] = static_cast<float>(std::sin(angle));
    }
  copy_from_host(table.cos, cos.data(), table.cos.size_bytes());
  copy_from_host(table.sin, sin.data(), table.sin.size_bytes());
  return table;
}

}  // namespace athanor::nn
