// The row functions of attention by themselves: they keep within the scratch and the sums that they ask for.
#include <cmath>
#include <cstring>

#include "athanor/kernels/cpu/cpu.h"
#include "kernels/kernel_test.h"

namespace athanor::tests::attention_rows_test {
namespace {

using AttentionRowsTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, AttentionRowsTest,
                         testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                         isa_test_name);

// Floats on a boundary of 64 bytes, as the arena gives them, NaN at first, between others that must stay.
class Guarded {
 public:
  explicit Guarded(int64_t floats) : memory_(kGuard + size_of(floats) + kGuard + 64, kByte), floats_(floats) {
    std::memset(data(), 0xff, size_of(floats));
  }
  float* data() { return reinterpret_cast<float*>(memory_.data() + first()); }
  void expect_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (i >= first() && i < first() + size_of(floats_)) continue;
      ASSERT_EQ(memory_[i], kByte) << static_cast<int64_t>(i - first()) << " of " << size_of(floats_);
    }
  }

 private:
  static constexpr size_t kGuard = 4096;
  static constexpr unsigned char kByte = 0xa5;
  static size_t size_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }
  size_t first() const {
    const auto start = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    return kGuard + (64 - start % 64) % 64;
  }

  std::vector<unsigned char> memory_;
  int64_t floats_;
};

TEST_P(AttentionRowsTest, KeepWithinTheirMemory) {
  Bench bench(GetParam(), 1);
  for (const Dtype dtype : kElementTypes)
    for (const int64_t head_dim : {1, 8, 24, 64, 72, 128, 200})
      for (const int64_t length : {1, 40, 256, 300}) {
        SCOPED_TRACE(fmt::format("{} D {} T {}", name_of(dtype), head_dim, length));
        const RowType type = row_type("test", bench.output(Shape{1}, dtype));
        const AttentionRows& rows =
            choose(bench.queue(), &RowTable::attention, type, &AttentionRows::backward);
        const Shape shape{length, head_dim};
        const auto input = [&](uint64_t seed) {
          return bench.input(random_values(shape.numel(), dtype, seed), shape, dtype);
        };
        const Tensor q = input(1), k = input(2), v = input(3), d_o = input(4);
        const Tensor o = bench.output(shape, dtype), lse = bench.output(Shape{length}, Dtype::f32);
        const Tensor dq = bench.output(shape, dtype), dk = bench.output(shape, dtype);
        const Tensor dv = bench.output(shape, dtype), delta = bench.output(Shape{length}, Dtype::f32);
        const AttentionProblem problem{length, length, head_dim, head_dim, head_dim, 0.1f};

        Guarded scratch(rows.forward_floats(head_dim, std::min(kAttentionBlock, length)));
        for (int64_t first = 0; first < length; first += kAttentionBlock)
          rows.forward(o.raw(), lse.data<float>(), q.raw(), k.raw(), v.raw(), problem, first,
                       std::min(kAttentionBlock, length - first), scratch.data());
        scratch.expect_intact();
        for (const double x : values_of(o)) ASSERT_TRUE(std::isfinite(x));

        const auto row_delta = choose(bench.queue(), &RowTable::attention, type, &AttentionRows::delta).delta;
        for (int64_t t = 0; t < length; ++t)
          row_delta(delta.data<float>() + t, length, at(d_o, t * head_dim), at(o, t * head_dim), 1, head_dim);
        Guarded more_scratch(rows.backward_floats(head_dim, 1));
        Guarded dq_sums(rows.sum_floats(head_dim)), dk_sums(rows.sum_floats(head_dim));
        Guarded dv_sums(rows.sum_floats(head_dim));
        const int64_t last = (length - 1) / kAttentionBlock;
        rows.backward({.dq = dq.raw(),
                       .dk = dk.raw(),
                       .dv = dv.raw(),
                       .d_o = d_o.raw(),
                       .q = q.raw(),
                       .k = k.raw(),
                       .v = v.raw(),
                       .lse = lse.data<float>(),
                       .delta = delta.data<float>(),
                       .dq_sums = dq_sums.data(),
                       .dk_sums = dk_sums.data(),
                       .dv_sums = dv_sums.data()},
                      problem, {last, 0, true, true, true, true}, more_scratch.data());
        more_scratch.expect_intact();
        dq_sums.expect_intact();
        dk_sums.expect_intact();
        dv_sums.expect_intact();
        const int64_t written = std::min(length, kAttentionBlock) * head_dim;
        const Values got = values_of(dk);
        for (int64_t i = 0; i < written; ++i) ASSERT_TRUE(std::isfinite(got[static_cast<size_t>(i)])) << i;
      }
  bench.expect_guards_intact();
}

}  // namespace
}  // namespace athanor::tests::attention_rows_test
