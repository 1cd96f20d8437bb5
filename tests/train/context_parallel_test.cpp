// Documents that do not see each other. That they do not in any layout is rows of train/layouts.
#include <gtest/gtest.h>

#include "train/layout_run.h"

namespace athanor {
namespace {

// Documents matter, and a sequence that is one document is what it was.
TEST(Documents, AreToldApart) {
  Config config = uneven("llama", "sgd");
  config.train.steps = 2;
  const VerifyRun across = run_layout(one_process(config));
  config.data.attend_across_documents = false;
  EXPECT_GT(compare(run_layout(one_process(config)), across).worst(), 100 * kTolerance);
}

}  // namespace
}  // namespace athanor
