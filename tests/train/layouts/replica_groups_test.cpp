// Local SGD with the other axes: whatever the layout inside the replica groups, they are those that one process each
// computes, to the bit where law 1 says so and within 1e-5 elsewhere. local_sgd_test.cpp has the definition of the latter.
#include "train/layouts/layout_case.h"
#include "train/local_sgd_training.h"

namespace athanor::tests::replica_groups_test {
namespace {

void add_groups(LayoutTable& table, const std::string& label, const Config& config,
                const std::vector<Axes>& layouts) {
  for (const Axes& axes : layouts) {
    const Config many = in_axes(config, axes);
    table.beside(
        label, many, one_process(many),
        {.tolerance = make_layout(many, {.world_size = ranks_of(many)}).keeps_order() ? 0.0 : kTolerance,
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
      add_groups(table, family + " " + optimizer, local_sgd(family, optimizer),
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
    Config compressed = local_sgd("gpt2", optimizer);
    compressed.local_sgd.compression = "int8";
    add_groups(table, "gpt2 int8 " + optimizer, compressed,
               {{.dp = 2, .pp = 2, .group = 1},
                {.dp = 4, .pp = 2, .group = 2},
                {.dp = 4, .pp = 2, .zero = 1, .group = 2},
                {.dp = 4, .zero = 3, .group = 2}});
    add_groups(table, "moe " + optimizer, local_sgd("moe", optimizer),
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
               local_sgd("moe_bias", optimizer),  // its balance is that of all groups
               {{.dp = 4, .ep = 2, .group = 2},
                {.dp = 2, .cp = 2, .ep = 2, .group = 1},
                {.dp = 4, .tp = 2, .zero = 1, .group = 2},
                {.dp = 4, .cp = 2, .ep = 2, .zero = 2, .group = 2},
                {.dp = 2, .pp = 2, .cp = 2, .ep = 2, .group = 1}});
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ReplicaGroups, LayoutTest, testing::ValuesIn(replica_groups()), layout_case_name);

// Hybrid sharding inside the replica groups changes no bit of them.
std::vector<LayoutCase> shards_of_replica_groups() {
  LayoutTable table;
  table.leave_out("so many ranks take minutes");
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const Config config = several_blocks(local_sgd("llama", optimizer));
    Config compressed = config, fast = config;
    compressed.local_sgd.compression = "int8";
    fast.parallel.reduce = "fast";
    for (const int64_t zero : {1, 2, 3})
      add_groups(
          table, optimizer, config,
          {{.dp = 8, .zero = zero, .shard = 2, .group = 4}, {.dp = 6, .zero = zero, .shard = 3, .group = 6}});
    add_groups(table, optimizer, config, {{.dp = 4, .pp = 2, .zero = 2, .shard = 2, .group = 4}});
    add_groups(table, optimizer + " int8", compressed, {{.dp = 8, .zero = 2, .shard = 2, .group = 4}});
    const Axes axes{.dp = 8, .zero = 1, .shard = 2, .group = 4};
    table.beside(optimizer + " fast", in_axes(fast, axes), one_process(in_axes(config, axes)),
                 within(kTolerance), text_of(axes));
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(ShardsOfReplicaGroups, LayoutTest, testing::ValuesIn(shards_of_replica_groups()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::replica_groups_test
