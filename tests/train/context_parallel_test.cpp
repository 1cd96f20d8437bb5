// Documents that do not see each other. That they do not in any layout is rows of train/layouts.
#include <gtest/gtest.h>

#include "train/layout_run.h"

namespace athanor::tests::context_parallel_test {
namespace {

// Documents matter, and a sequence that is one document is what it was.
TEST(Documents, AreToldApart) {
  Config config = uneven("llama", "sgd");
  config.train.steps = 2;
  const VerifyRun across = run_layout(one_process(config));
  config.data.document_mask = true;
  EXPECT_GT(compare(run_layout(one_process(config)), across).worst(), 100 * kTolerance);
}

}  // namespace
}  // namespace athanor::tests::context_parallel_test
