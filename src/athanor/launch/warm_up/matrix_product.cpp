#include "athanor/launch/warm_up/matrix_product.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/median.h"
#include "athanor/base/thread_pool.h"
#include "athanor/kernels/table.h"

namespace athanor::launch::warm_up {
namespace {

constexpr int64_t kSide = 256;
constexpr int64_t kLimitNs = 10'000'000;
constexpr size_t kFewest = 3;  // where one takes long

double measure(const MatrixProductOptions& options) {
  bind_this_thread(options.placement.thread(0));
  ThreadPool pool(options.threads, [&](int thread) { bind_this_thread(options.placement.thread(thread)); });
  const auto queue = make_cpu_queue(&pool, options.isa);
  Arena arena(*queue);
  const int64_t rows = kSide * options.threads;
  Tensor a = empty(arena, {rows, kSide}, Dtype::f32, Category::workspace);
  Tensor b = empty(arena, {kSide, kSide}, Dtype::f32, Category::workspace);
  Tensor c = empty(arena, {rows, kSide}, Dtype::f32, Category::workspace);
  std::fill_n(a.data<float>(), rows * kSide, 0.5F);
  std::fill_n(b.data<float>(), kSide * kSide, 0.25F);
  const auto multiply = [&] { kernels_of(a).gemm.nt(*queue, c, a, b, nullptr); };
  multiply();  // touches its memory
  std::vector<double> times_ns;
  for (const int64_t until_ns = now_ns() + kLimitNs; times_ns.size() < kFewest || now_ns() < until_ns;) {
    const int64_t before_ns = now_ns();
    multiply();
    times_ns.push_back(static_cast<double>(std::max<int64_t>(now_ns() - before_ns, 1)));
  }
  return 2.0 * static_cast<double>(rows * kSide * kSide) / median(std::move(times_ns));
}

}  // namespace

double measure_matrix_product(const MatrixProductOptions& options) {
  double gflop_per_s = -1;
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      gflop_per_s = measure(options);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
  return gflop_per_s;
}

}  // namespace athanor::launch::warm_up
