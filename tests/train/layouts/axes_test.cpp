// A row must be the layout that its name says: an axis that in_axes() forgot would equal its reference for nothing.
#include <set>

#include "athanor/config/print.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::axes_test {
namespace {

TEST(LayoutCases, EveryAxisIsTakenAndNamed) {
  const std::vector<Axes> each_axis = {{},
                                       {.dp = 2},
                                       {.tp = 2},
                                       {.pp = 2},
                                       {.cp = 2},
                                       {.ep = 2},
                                       {.zero = 1},
                                       {.shard = 2},
                                       {.group = 2},
                                       {.sp = true},
                                       {.pp = 2, .schedule = "zb-v"},
                                       {.recompute = "full"},
                                       {.cp_method = "ulysses"},
                                       {.reduce = "tree"},
                                       {.pp = 2, .stage_layers = {1, 1}}};
  std::set<std::string> configs, names;
  for (const Axes& axes : each_axis) {
    configs.insert(print_config(in_axes(tiny("llama"), axes)));
    names.insert(text_of(axes));
  }
  EXPECT_EQ(configs.size(), each_axis.size());
  EXPECT_EQ(names.size(), each_axis.size());
}

// Two configs of one key would have one reference.
TEST(LayoutCases, AReferenceIsThatOfItsOwnConfig) {
  Config config = tiny("llama");
  config.train.steps = 1;
  const double loss = run_once(config).losses[0];
  EXPECT_EQ(run_once(config).losses[0], loss);
  config.train.seed = 2;
  EXPECT_NE(run_once(config).losses[0], loss);
}

}  // namespace
}  // namespace athanor::tests::axes_test
