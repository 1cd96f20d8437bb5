#include "athanor/kernels/peak.h"

#include <cmath>

#include "kernels/kernel_test.h"

namespace athanor::tests::peak_test {
namespace {

class Peak : public IsaTest {};

TEST_P(Peak, EveryInstructionSetHasItsCeilings) {
  ThreadPool pool(2);
  const auto queue = make_cpu_queue(&pool, GetParam());
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const double flops = measure_peak_flops(*queue, dtype);
    EXPECT_TRUE(std::isfinite(flops) && flops > 1e6) << flops;
    EXPECT_LT(flops, 1e14) << "what is measured was left out by the compiler";
  }
  const double bytes = measure_copy_bandwidth(*queue);  // checks what it copies
  EXPECT_TRUE(std::isfinite(bytes) && bytes > 1e6) << bytes;
}

INSTANTIATE_TEST_SUITE_P(Isa, Peak, row_isas(), isa_test_name);

TEST(PeakOfNothing, IsNone) {
  const auto queue = make_null_queue();
  EXPECT_EQ(measure_peak_flops(*queue, Dtype::bf16), 0.0);
  EXPECT_EQ(measure_copy_bandwidth(*queue), 0.0);
}

}  // namespace
}  // namespace athanor::tests::peak_test
