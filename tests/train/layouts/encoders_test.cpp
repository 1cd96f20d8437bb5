// Encoders: tokens see later ones, in every layout.
#include <fmt/format.h>

#include "train/layouts/layout_case.h"

namespace athanor::tests::encoders_test {
namespace {

std::vector<LayoutCase> bitwise() {
  LayoutTable table;
  for (const bool documents : {false, true}) {
    Config config = tiny("bert");
    config.parallel.reduce = "tree";
    config.model.num_hidden_layers = 4;
    config.data.document_mask = documents;
    for (const Axes& axes : {Axes{.pp = 2},
                             {.dp = 2, .zero = 1},
                             {.dp = 5, .zero = 3},
                             {.dp = 2, .pp = 2, .schedule = "zb-v"},
                             {.pp = 3, .stage_layers = {0, 4, 0}},
                             {.recompute = "full"},
                             {.dp = 2, .recompute = "selective"}})
      table.as_one(documents ? "documents" : "bert", config, axes);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(EncodersBitwise, LayoutTest, testing::ValuesIn(bitwise()), layout_case_name);

std::vector<LayoutCase> nearly() {
  LayoutTable table;
  for (const bool documents : {false, true})
    for (const char* optimizer : {"adamw", "sgd"}) {
      Config config = uneven("bert", optimizer);
      config.data.document_mask = documents;
      for (const Axes& axes : {Axes{.tp = 2},
                               {.tp = 2, .sp = true},
                               {.tp = 2, .pp = 2, .sp = true},
                               {.cp = 3},
                               {.dp = 2, .cp = 2},
                               {.tp = 2, .cp = 2},
                               {.cp = 2, .cp_method = "ulysses"},
                               {.tp = 2, .cp = 2, .cp_method = "ulysses"},
                               {.dp = 2, .tp = 2, .zero = 3}})
        table.as_one(fmt::format("bert {}{}", optimizer, documents ? " documents" : ""), config, axes,
                     within(kTolerance));
    }
  // A band over both sides, and others for other heads: BigBird's kind.
  Config sparse = uneven("bert", "adamw");
  sparse.model.attention_pattern = "heads 0-1: band:2; global:1 + block_band:4,1";
  for (const Axes& axes : {Axes{.tp = 2, .sp = true}, {.cp = 2}, {.tp = 2, .cp = 2, .cp_method = "ulysses"}})
    table.as_one("sparse", sparse, axes, within(kTolerance));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(EncodersNearly, LayoutTest, testing::ValuesIn(nearly()), layout_case_name);

std::vector<LayoutCase> planned() {
  LayoutTable table;
  for (const Axes& axes : {Axes{}, {.dp = 2, .zero = 3}, {.tp = 2, .sp = true}, {.cp = 2}}) {
    Config config = tiny("bert");
    config.precision.compute = "bf16";
    table.planned("bert", in_axes(config, axes));
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Encoders, PlanTest, testing::ValuesIn(planned()), layout_case_name);

// Both sides are seen: the same weights in causal order say something else, as do documents without their ends.
TEST(Encoders, SeeLaterTokens) {
  const Config both = tiny("bert");
  Config causal = both;
  causal.model.attention_pattern = "causal";
  EXPECT_NE(run(both, 1).steps.front().loss, run(causal, 1).steps.front().loss);
}

}  // namespace
}  // namespace athanor::tests::encoders_test
