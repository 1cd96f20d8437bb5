// Local SGD with the other axes: whatever the layout inside the replica groups, they are those that one process each
// computes, to the bit where law 1 says so and within 1e-5 elsewhere. two_speed_test.cpp has the definition of the latter.
#include "athanor/train/plan/layout_walk.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::replica_groups_test {
namespace {

Config tree_groups(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  if (config.model.num_experts > 0) config.model.num_experts = 8;
  config.train.global_batch_size = 16;  // eight micro-batches
  config.train.steps = 6;
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "adamw" ? 1e-3 : 1e-1;
  config.parallel.reduce = "tree";  // inside a replica group: the bits of one process
  config.local_sgd.sync_interval = 3;
  return config;
}

void add_groups(LayoutTable& table, const std::string& label, const Config& config,
                const std::vector<Axes>& layouts) {
  for (const Axes& axes : layouts) {
    const Config many = in_axes(config, axes);
    table.beside(label, many, one_process(many),
                 {.tolerance = keeps_order(many.parallel) ? 0.0 : kTolerance,
                  .no_flips = true,
                  .replica_groups = true},
                 text_of(axes));
  }
}

std::vector<LayoutCase> replica_groups() {
  LayoutTable table;
  table.leave_out_threads("samples of layouts take minutes");
  for (const std::string optimizer : {"adamw", "sgd"}) {
    table.leave_out(optimizer == "sgd" ? "AdamW has the same case" : nullptr);
    for (const std::string family : {"llama", "gpt2"})  // of gpt2 the embedding is on both ends of a pipeline
      add_groups(table, family + " " + optimizer, tree_groups(family, optimizer),
                 {{.dp = 2, .pp = 2, .group = 1},
                  {.dp = 4, .pp = 2, .group = 2},
                  {.dp = 4, .pp = 2, .zero = 1, .group = 2},
                  {.dp = 4, .pp = 2, .zero = 3, .group = 2},
                  {.dp = 2, .pp = 2, .group = 1, .schedule = "zb-h1"},
                  {.dp = 3, .pp = 2, .group = 1},
                  {.dp = 2, .cp = 2, .group = 1},
                  {.dp = 4, .cp = 2, .group = 2, .cp_method = "ulysses"},
                  {.dp = 3, .cp = 2, .zero = 1, .group = 1},
                  {.dp = 4, .cp = 2, .zero = 2, .group = 2},
                  {.dp = 2, .cp = 2, .zero = 3, .group = 1},
                  {.dp = 2, .tp = 2, .pp = 2, .group = 1},
                  {.dp = 2, .tp = 2, .cp = 2, .group = 1, .sp = true},
                  {.dp = 2, .pp = 2, .cp = 2, .zero = 3, .group = 1}});
    // Blocks of 256 elements of a parameter, whoever has them.
    Config compressed = tree_groups("gpt2", optimizer);
    compressed.local_sgd.compression = "int8";
    add_groups(table, "gpt2 int8 " + optimizer, compressed,
               {{.dp = 2, .pp = 2, .group = 1},
                {.dp = 4, .pp = 2, .group = 2},
                {.dp = 4, .pp = 2, .zero = 1, .group = 2},
                {.dp = 4, .zero = 3, .group = 2}});
    add_groups(table, "moe " + optimizer, tree_groups("moe", optimizer),
               {{.dp = 4, .ep = 2, .group = 2},
                {.dp = 8, .ep = 2, .group = 4},
                {.dp = 8, .ep = 2, .zero = 1, .group = 4},
                {.dp = 8, .ep = 2, .zero = 3, .group = 4},
                {.dp = 4, .pp = 2, .ep = 2, .group = 2},
                {.dp = 2, .tp = 2, .ep = 2, .group = 1},
                {.dp = 4, .tp = 2, .ep = 2, .group = 2, .sp = true},
                {.dp = 2, .tp = 2, .group = 1},
                {.dp = 4, .tp = 2, .zero = 3, .group = 2, .sp = true}});
    add_groups(table, "moe_bias " + optimizer,
               tree_groups("moe_bias", optimizer),  // its balance is that of all groups
               {{.dp = 4, .ep = 2, .group = 2},
                {.dp = 2, .cp = 2, .ep = 2, .group = 1},
                {.dp = 4, .tp = 2, .zero = 1, .group = 2},
                {.dp = 4, .cp = 2, .ep = 2, .zero = 2, .group = 2},
                {.dp = 2, .pp = 2, .cp = 2, .ep = 2, .group = 1}});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ReplicaGroups, LayoutTest, testing::ValuesIn(replica_groups()), layout_case_name);

}  // namespace
}  // namespace athanor::tests::replica_groups_test
