#include "athanor/observe/log_line.h"

#include <gtest/gtest.h>

#include <limits>

namespace athanor {
namespace {

TEST(StepLine, Fields) {
  StepMetrics m{.step = 10,
                .loss = 5.12344,
                .channel_loss = {{"en", 5.011}, {"zh", 6.2}},
                .grad_norm = 1.234,
                .lr = 3e-4,
                .tokens_per_second = 1234.4,
                .mfu = 0.123,
                .step_seconds = 0.83};
  EXPECT_EQ(
      step_line(m, 400),
      "step 00010/400 | loss 5.1234 | en 5.01 zh 6.20 | norm 1.23 | lr 3.0e-04 | 1,234 tok/s | mfu 12.3 % | "
      "830 ms");
  m.channel_loss.clear();
  m.experts = ExpertMetrics{.max_over_mean = 1.5};
  m.tokens_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      step_line(m, 1'000'000),
      "step 0000010/1000000 | loss 5.1234 | norm 1.23 | lr 3.0e-04 | 0 tok/s | mfu 12.3 % | load 1.50 | "
      "830 ms");
  m.valid_loss = 4.5;
  m.valid_channel_loss = {{"en", 4.25}};
  EXPECT_EQ(validation_line(m, 400), "valid 00010/400 | loss 4.5000 | en 4.25");
}

}  // namespace
}  // namespace athanor
