// What the kernel tests share: every kernel is called through its driver, for an instruction set, on tensors
// that start off alignment and lie between guard bytes, with 1, 2 and 3 threads whose results must agree bit
// for bit, and is compared with a naive computation in double.
//
//   const auto got = run(isa, [&](Bench& bench) {
//     Tensor y = bench.output({3, 5}, dtype);                        // NaN until written
//     bench.kernels().gelu.forward(bench.queue(), y, bench.input(x, {3, 5}, dtype));
//     return std::vector{y};
//   });
//   expect_close(got[0], expected, tolerance(dtype));
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/thread_pool.h"
#include "athanor/kernels/table.h"

namespace athanor::tests {

using Values = std::vector<double>;

constexpr Dtype kElementTypes[] = {Dtype::f32, Dtype::bf16, Dtype::f16};

double round_to(double value, Dtype dtype);  // the nearest value of the type
// Values of a nearly normal distribution (none beyond 3.5 deviations) that the type can hold.
Values random_values(int64_t n, Dtype dtype, uint64_t seed, double deviation = 1);
std::vector<int32_t> random_ids(int64_t n, int32_t end, uint64_t seed);
Values values_of(const Tensor& x);

class Bench {
 public:
  Bench(Isa isa, int threads);

  Queue& queue() { return *queue_; }
  Arena& arena() { return *arena_; }
  const KernelTable& kernels() { return queue_->table(); }

  Tensor input(const Values& values, const Shape& shape, Dtype dtype);  // guards are NaN: reading them shows
  Tensor ids(const std::vector<int32_t>& values, const Shape& shape);
  Tensor output(const Shape& shape, Dtype dtype);                        // holds NaN
  Tensor output(const Values& values, const Shape& shape, Dtype dtype);  // holds values, to be added to
  void expect_guards_intact() const;

 private:
  Tensor guarded(const Shape& shape, Dtype dtype, int fill);

  struct Guarded {
    std::shared_ptr<Storage> storage;
    uint64_t first, size_bytes;
    int fill;
  };
  ThreadPool pool_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Arena> arena_;
  std::vector<Guarded> guarded_;
};

// Runs `body` with 1, 2 and 3 threads and returns the tensors it returns, as doubles.
std::vector<Values> run(Isa isa, const std::function<std::vector<Tensor>(Bench&)>& body);

// The device of all tests of the program: a CPU's (cpu_queue.cpp), or a GPU's (tests/cuda/device_queue.cpp).
std::unique_ptr<Queue> make_test_queue(ThreadPool* pool, Isa isa);
bool tests_are_of_cuda();   // a GPU's, or the emulated device's
bool device_is_emulated();  // each of its threads is one of the host's

void fill(Tensor& x, float value);  // f32

// The relative error that storing a result in the type explains, as ||difference|| / ||expected||.
double tolerance(Dtype dtype);
// By norm over all, and by element against its own size and the root mean square of all.
void expect_close(const Values& got, const Values& expected, double tolerance);

// Runs once per instruction set; one that this machine lacks is skipped, aloud.
class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa()) GTEST_SKIP() << "this machine has no " << isa_name(GetParam());
  }
};
inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) {
  return isa_name(info.param);
}
// Those with row functions of their own.
inline auto row_isas() {
  return testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx);
}

// The message of the Error that `body` throws.
std::string error_of(const std::function<void()>& body);

}  // namespace athanor::tests
