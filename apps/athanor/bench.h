// The measurements of `athanor bench`, one file each.
#pragma once

#include <algorithm>
#include <vector>

namespace CLI {
class App;
}

namespace athanor {

void add_bench_gemm(CLI::App& bench);
void add_bench_step(CLI::App& bench);

// Of a copy; the mean of the two middle ones where there is no single one. At least one value.
inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

}  // namespace athanor
