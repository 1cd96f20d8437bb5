#include "athanor/kernels/cuda/ceilings.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/philox.h"
#include "athanor/tensor/arena.h"
#include "athanor/tensor/tensor.h"

namespace athanor::kernels {
namespace {

constexpr int kRuns = 5, kEach = 4;

// The best rate of `amount` per call; the first call warms up.
template <typename Call>
double best_rate(CudaQueue& queue, double amount, const Call& call) {
  double best = 0.0;
  call();
  for (int run = 0; run < kRuns; ++run) {
    queue.wait();
    const double start = now_seconds();
    for (int i = 0; i < kEach; ++i) call();
    queue.wait();
    best = std::max(best, amount * kEach / (now_seconds() - start));
  }
  return best;
}

// Random values: a device computes faster on zeros, because fewer bits change.
Tensor random_matrix(Arena& arena, int64_t side, Dtype dtype) {
  constexpr int64_t kRows = 64;
  Tensor some = empty(arena, {kRows, side}, Dtype::f32, Category::workspace);
  std::vector<float> values(static_cast<size_t>(some.numel()));
  const RandomStream stream(1, "peak");
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(stream.word(i, 0) % 2048) / 1024.0f - 1.0f;
  copy_from_host(some, values.data(), some.size_bytes());
  Tensor rows = empty(arena, some.shape(), dtype, Category::workspace);
  auto& device = cuda(arena.queue());
  device.table().elementwise.cast(device, rows, some);
  Tensor all = empty(arena, {side, side}, dtype, Category::workspace);
  for (uint64_t at = 0; at < all.size_bytes(); at += rows.size_bytes())
    device.copy(static_cast<std::byte*>(all.raw()) + at, rows.raw(), rows.size_bytes());
  return all;
}

// 0 where there is nothing to measure: on an emulated device, or without room for the matrices.
template <typename Measure>
double measure(CudaQueue& queue, const Measure& rate) {
  if (std::string_view(queue.calls().name) != "cuda") return 0.0;
  Meter* const meter = queue.meter();
  queue.set_meter(nullptr);  // these kernels are no part of what is measured
  double best = 0.0;
  try {
    Arena arena(queue);
    best = rate(arena);
  } catch (const OverLimit&) {
  }
  queue.set_meter(meter);
  return best;
}

}  // namespace

double measure_device_flops(CudaQueue& queue, Dtype dtype) {
  return measure(queue, [&](Arena& arena) {
    const int64_t side = dtype == Dtype::f32 ? 4096 : 8192;
    const Tensor a = random_matrix(arena, side, dtype), b = random_matrix(arena, side, dtype);
    Tensor c = empty(arena, {side, side}, dtype, Category::workspace);
    const double operations = 2.0 * static_cast<double>(side * side) * static_cast<double>(side);
    return best_rate(queue, operations, [&] { queue.table().gemm.nt(queue, c, a, b, nullptr); });
  });
}

double measure_device_copy(CudaQueue& queue) {
  return measure(queue, [&](Arena& arena) {
    constexpr int64_t kBytes = int64_t{1} << 30;
    const Tensor from = zeros(arena, {kBytes}, Dtype::u8, Category::workspace);
    Tensor to = empty(arena, {kBytes}, Dtype::u8, Category::workspace);
    return best_rate(queue, 2.0 * static_cast<double>(kBytes),
                     [&] { queue.copy(to.raw(), from.raw(), from.size_bytes()); });
  });
}

}  // namespace athanor::kernels
