#include "athanor/nn/rope_table.h"

#include <cmath>
#include <vector>

namespace athanor::nn {

RopeTable make_rope_table(Arena& arena, int64_t positions, int64_t head_dim, double base,
                          const RopeScaling& scaling) {
  const std::vector<double> frequencies = rope_frequencies(scaling, base, head_dim);
  const double magnitude = rope_magnitude(scaling);
  const int64_t half = head_dim / 2;
  RopeTable table{empty(arena, {positions, half}, Dtype::f32, Category::parameters),
                  empty(arena, {positions, half}, Dtype::f32, Category::parameters)};
  if (arena.queue().device() == Device::null) return table;
  std::vector<float> cos, sin;
  cos.reserve(static_cast<size_t>(positions * half));
  sin.reserve(cos.capacity());
  for (int64_t p = 0; p < positions; ++p)
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      cos.push_back(static_cast<float>(magnitude * std::cos(angle)));
      sin.push_back(static_cast<float>(magnitude * std::sin(angle)));
    }
  copy_from_host(table.cos, cos.data(), table.cos.size_bytes());
  copy_from_host(table.sin, sin.data(), table.sin.size_bytes());
  return table;
}

}  // namespace athanor::nn
