// What a step puts on the wire, counted by the groups, against the formulas of docs/parallelism.md and docs/moe.md,
// written out again here. Sums over all ranks: there the formulas hold for every size, divisible or not.
#include <gtest/gtest.h>

#include <numeric>

#include "athanor/comm/tree.h"
#include "athanor/parallel/expert/expert_parallel.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "train/layout_run.h"

namespace athanor::tests::traffic_test {
namespace {

constexpr int64_t kChannels = 2;  // of data, as Training is told

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Of the second step, with all that it has started.
struct StepTraffic {
  Traffic sum;  // over the ranks
  int64_t calls(Collective operation) const { return sum.of(operation).calls; }
  int64_t bytes(Collective operation) const { return sum.of(operation).bytes; }
  void expect_nothing_but(std::initializer_list<Collective> operations) const {
    Traffic rest;
    for (const Collective each : operations) rest.add(each, bytes(each), calls(each));
    rest.add(Collective::barrier, 0, calls(Collective::barrier));
    EXPECT_EQ(rest, sum);
  }
};

// What the test needs to know of the model.
struct Sizes {
  int64_t replicated = 0;  // elements of flat buffers that every rank has whole
  int64_t rows = 0, gathered = 0,
          gathered_blocks = 0;      // elements of all rows of buckets: of gradients, of values
  std::vector<int64_t> norm_nodes;  // of what is sharded, by rank
};

Sizes sizes_of(const Config& config, int ranks, int stage) {
  Sizes sizes;
  const auto model = make_model(config.model);
  for (const Weight* weight : model->weights()) sizes.replicated += round_up(weight->param().numel(), 16);
  const Buckets buckets(model->weights(),
                        {.rows = ranks, .bucket_bytes = config.parallel.bucket_bytes, .by_unit = stage == 3});
  sizes.norm_nodes.assign(static_cast<size_t>(ranks), 0);
  for (const Bucket& bucket : buckets.list) {
    const int64_t total = bucket.layout.total();
    sizes.rows += total;
    for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
      const Param& param = bucket.weights[slot]->param();
      if (bucket.weights[slot] != param.uses().front().get()) continue;
      if (slot == 0) {
        sizes.gathered += total;
        if (param.name().starts_with("blocks.")) sizes.gathered_blocks += total;
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const FlatRange piece = bucket.layout.piece(slot, rank);
        const auto block = [](int64_t element) { return (element + 255) / 256; };
        if (piece.count() > 0)
          sizes.norm_nodes[static_cast<size_t>(rank)] += static_cast<int64_t>(
              cover_nodes(piece.first / 256, block(piece.last), block(param.numel())).size());
      }
    }
  }
  return sizes;
}

StepTraffic step_traffic(const Config& config, int ranks) {
  std::vector<Traffic> of_rank(static_cast<size_t>(ranks));
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    Engine engine;
    TrainingRank rank(config, world, engine.arena, kChannels);
    Training& training = rank.training;
    Group& group = *rank.groups.data;
    training.allocate();
    training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    Batch batch;
    for (int64_t step = 1; step <= 2; ++step) {
      group.barrier("what was started is done");
      const Traffic before = group.traffic();
      const std::vector<int64_t> micro_batches = training.own_micro_batches();
      auto micro_batch = micro_batches.begin();
      training.role->step(state, [&]() -> const Batch& {
        batch = make_batch(config, step, *micro_batch++);
        return batch;
      });
      group.barrier("what was started is done");
      of_rank[static_cast<size_t>(group.rank())] = group.traffic() - before;
    }
  });
  StepTraffic result;
  for (const Traffic& traffic : of_rank) result.sum += traffic;
  return result;
}

Config traffic_config(const std::string& family, int stage, const std::string& reduce,
                      const std::string& compute) {
  Config config = tiny(family);
  config.model.hidden_size = 48;
  config.model.intermediate_size = 100;
  config.model.head_dim = 12;
  config.parallel.bucket_bytes = 32 << 10;
  config.parallel.zero_stage = stage;
  config.parallel.reduce = reduce;
  config.precision.compute = compute;
  return config;
}

// Losses, tokens and what the ranks have to know of each other, in f64.
int64_t loss_bytes(int64_t num_micro_batches) {
  return 8 * static_cast<int64_t>(MicroBatchLosses::count(num_micro_batches, kChannels));
}

class DataTraffic : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DataTraffic, ::testing::Values(2, 3, 4));

TEST_P(DataTraffic, Stage0) {
  const int64_t n = GetParam();
  for (const char* family : {"llama", "gpt2"}) {
    const Config fast = traffic_config(family, 0, "fast", "bf16");
    const Sizes sizes = sizes_of(fast, GetParam(), 0);
    const StepTraffic step = step_traffic(fast, GetParam());
    EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (n - 1) * (4 * sizes.replicated + loss_bytes(5)));
    step.expect_nothing_but({Collective::all_reduce});

    // Each rank brings its nodes of the tree over the micro-batches.
    int64_t nodes = 0;
    for (int rank = 0; rank < n; ++rank) {
      const auto [first, last] = micro_batches_of_rank(5, GetParam(), rank);
      nodes += static_cast<int64_t>(cover_nodes(first, last, 5).size());
    }
    const StepTraffic tree = step_traffic(traffic_config(family, 0, "tree", "bf16"), GetParam());
    EXPECT_EQ(tree.bytes(Collective::all_reduce), 2 * (n - 1) * loss_bytes(5));
    tree.expect_nothing_but({Collective::all_reduce, Collective::all_reduce_tree});
    const double per_node =
        static_cast<double>(4 * sizes.replicated) * static_cast<double>(n - 1) / static_cast<double>(n);
    EXPECT_NEAR(static_cast<double>(tree.bytes(Collective::all_reduce_tree)),
                static_cast<double>(nodes + n) * per_node,
                4.0 * static_cast<double>(step.calls(Collective::all_reduce) * nodes));  // uneven parts
  }
}

TEST_P(DataTraffic, Stage1) {
  const int64_t n = GetParam();
  for (const char* family : {"llama", "gpt2"}) {
    const Config config = traffic_config(family, 1, "fast", "bf16");
    const Sizes sizes = sizes_of(config, GetParam(), 1);
    const int64_t nodes = std::accumulate(sizes.norm_nodes.begin(), sizes.norm_nodes.end(), int64_t{0});
    const StepTraffic step = step_traffic(config, GetParam());
    EXPECT_EQ(step.bytes(Collective::reduce_scatter), (n - 1) * 4 * sizes.rows);
    EXPECT_EQ(step.bytes(Collective::all_gather), (n - 1) * 2 * sizes.gathered);
    EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (n - 1) * (loss_bytes(5) + 8 * nodes));
    step.expect_nothing_but({Collective::reduce_scatter, Collective::all_gather, Collective::all_reduce});
  }
}

TEST_P(DataTraffic, Stage2) {
  const int64_t n = GetParam(), rounds = (5 + n - 1) / n;
  for (const char* reduce : {"fast", "tree"}) {
    const Config config = traffic_config("gpt2", 2, reduce, "f32");
    const Sizes sizes = sizes_of(config, GetParam(), 2);
    const int64_t nodes = std::accumulate(sizes.norm_nodes.begin(), sizes.norm_nodes.end(), int64_t{0});
    const StepTraffic step = step_traffic(config, GetParam());
    const Collective scatter =
        std::string(reduce) == "fast" ? Collective::reduce_scatter : Collective::all_to_all;
    EXPECT_EQ(step.bytes(scatter), rounds * (n - 1) * 4 * sizes.rows);
    EXPECT_EQ(step.bytes(Collective::all_gather), (n - 1) * 4 * sizes.gathered);
    EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (n - 1) * (loss_bytes(5) + 8 * nodes));
    step.expect_nothing_but({scatter, Collective::all_gather, Collective::all_reduce});
  }
}

// A micro-batch needs every block twice, what lies before and behind the blocks once.
TEST_P(DataTraffic, Stage3) {
  const int64_t n = GetParam(), rounds = (5 + n - 1) / n;
  for (const char* reduce : {"fast", "tree"}) {
    const Config config = traffic_config("llama", 3, reduce, "bf16");
    const Sizes sizes = sizes_of(config, GetParam(), 3);
    const StepTraffic step = step_traffic(config, GetParam());
    EXPECT_EQ(step.bytes(std::string(reduce) == "fast" ? Collective::reduce_scatter : Collective::all_to_all),
              rounds * (n - 1) * 4 * sizes.rows);
    EXPECT_EQ(step.bytes(Collective::all_gather),
              rounds * (n - 1) * 2 * (sizes.gathered + sizes.gathered_blocks));
  }
}

// What the group of some axes puts on the wire in all steps, summed over the ranks.
StepTraffic layout_traffic(const Config& config, Group* Groups::*group_of, int ranks) {
  std::vector<Group*> groups(static_cast<size_t>(ranks));
  std::vector<Traffic> before(groups.size()), after(groups.size());
  const auto note = [&](std::vector<Traffic>& traffic) {
    return [&](Training&, TrainState&, World& world) {
      const auto rank = static_cast<size_t>(world.rank());
      traffic[rank] = groups[rank]->traffic();
    };
  };
  const auto keep = [&](Groups& made) { groups[static_cast<size_t>(made.all->rank())] = made.*group_of; };
  run_layout(config, {.groups = keep, .begin = note(before), .end = note(after)});
  StepTraffic result;
  for (size_t rank = 0; rank < groups.size(); ++rank) result.sum += after[rank] - before[rank];
  return result;
}

// Axis cp: ranks that share sequences sum with those of dp, in the same collectives.
TEST(ContextTraffic, SumsAreThoseOfDataParallelismOverBothAxes) {
  for (const auto& [dp, cp] : {std::pair(1, 3), {2, 2}, {3, 2}})
    for (const int stage : {0, 1}) {
      const int64_t n = dp * cp;
      Config config = traffic_config("llama", stage, "fast", "f32");
      config.train.steps = 1;
      config.parallel.dp = dp;
      config.parallel.cp = cp;
      const Sizes sizes = sizes_of(config, dp * cp, stage);
      const int64_t nodes = std::accumulate(sizes.norm_nodes.begin(), sizes.norm_nodes.end(), int64_t{0});
      const StepTraffic step = layout_traffic(config, &Groups::data, dp * cp);
      if (stage == 0) {
        EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (n - 1) * (4 * sizes.replicated + loss_bytes(5)));
        step.expect_nothing_but({Collective::all_reduce});
      } else {
        EXPECT_EQ(step.bytes(Collective::reduce_scatter), (n - 1) * 4 * sizes.rows);
        EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (n - 1) * (loss_bytes(5) + 8 * nodes));
      }
    }
}

// Axis tp: one micro-batch of N tokens on P ranks.
class TensorTraffic : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TensorTraffic, ::testing::Values(2, 4));

StepTraffic tensor_traffic(Config config, int ranks, bool sp = false) {
  config.parallel.dp = 1;
  config.parallel.tp = ranks;
  config.parallel.sp = sp;
  return layout_traffic(config, &Groups::tensor, ranks);
}

Config one_micro_batch(const std::string& family) {
  Config config = tiny(family);
  config.model.num_key_value_heads = 4;
  config.train.steps = 1;
  config.train.global_batch_size = config.train.micro_batch_size = 3;
  return config;
}

// Elements whose gradient the ranks have in parts: biases that one adds, positions; under sp norms too.
int64_t partial_elements(const Config& config, bool sp) {
  int64_t elements = 0;
  const auto model = make_model(config.model);
  for (const auto& param : model->params()) {
    const std::string& name = param->name();
    const bool norm = name.find("norm") != std::string::npos;
    const bool first =
        name.ends_with("attn.o.bias") || name.ends_with("mlp.down.bias") || name.starts_with("positions");
    if (first || (sp && norm)) elements += param->numel();
  }
  return elements;
}

TEST_P(TensorTraffic, Tp) {
  const int64_t P = GetParam();
  for (const char* family : {"llama", "gpt2"})
    for (const char* compute : {"f32", "bf16"}) {
      Config config = one_micro_batch(family);
      config.precision.compute = compute;
      const int64_t e = std::string(compute) == "f32" ? 4 : 2;
      const int64_t N = 3 * 12, C = 24, blocks = 2;
      const StepTraffic step = tensor_traffic(config, GetParam());
      const int64_t activations = (4 * blocks + 2) * N * C * e;  // two each way a block; embedding, head
      EXPECT_EQ(step.bytes(Collective::all_reduce),
                2 * (P - 1) * (activations + 4 * partial_elements(config, false) + 8));  // norm
      EXPECT_EQ(step.bytes(Collective::all_gather), P * (P - 1) * 12 * N);
      step.expect_nothing_but({Collective::all_reduce, Collective::all_gather});
    }
}

TEST_P(TensorTraffic, Sp) {
  const int64_t P = GetParam();
  for (const char* family : {"llama", "gpt2"}) {
    Config config = one_micro_batch(family);
    config.precision.compute = "f32";
    const int64_t N = 3 * 12, C = 24, blocks = 2, partitioned = partitioned_rows(N, GetParam());
    const StepTraffic step = tensor_traffic(config, GetParam(), true);
    // Each way: a block two gathers and two scatters, the embedding one scatter, the head one gather.
    const int64_t one = P * (P - 1) * partitioned * C * 4;
    EXPECT_EQ(step.bytes(Collective::reduce_scatter), (4 * blocks + 2) * one);
    EXPECT_EQ(step.bytes(Collective::all_gather), (4 * blocks + 2) * one + P * (P - 1) * 12 * N);
    EXPECT_EQ(step.bytes(Collective::all_reduce), 2 * (P - 1) * (4 * partial_elements(config, true) + 8));
    step.expect_nothing_but({Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter});
  }
}

// Axis ep: where every token goes to every expert, (P-1)/P of the rows lie elsewhere.
TEST(ExpertTraffic, OfAPass) {
  for (const char* style : {"moe", "moe_bias"})
    for (const int ranks : {2, 4}) {
      Config config = tiny(style);
      config.model.num_experts = config.model.num_experts_per_tok = 4;
      const auto groups = make_thread_groups(ranks);
      std::vector<Traffic> of_rank(groups.size());
      int64_t layers = 0;
      run_ranks(groups, [&](Group& group) {
        Engine engine;
        ExpertParallel exchange(group);
        const auto model = make_model(config.model);
        for (MoeLayer* layer : model->moe_layers()) exchange.split(*layer);
        model->allocate(engine.arena, Dtype::f32, true);
        model->initialize(1);
        for (Weight* weight : model->weights())
          weight->set_grad(zeros(engine.arena, weight->param().shape(), Dtype::f32, Category::gradients));
        const Batch batch = make_batch(config, 1, group.rank());
        Tape tape({.seed = 1, .step = 1, .first_sequence = batch.first_index, .record = true});
        const auto tensor = [&](const std::vector<int32_t>& ids) {
          return to_tensor(engine.arena, ids, batch.num_sequences, batch.seq_len);
        };
        const Var loss = model->loss(tape, {.ids = tensor(batch.tokens), .targets = tensor(batch.targets)},
                                     RecomputePlan{});
        tape.backward(loss);
        group.barrier("all is done");
        of_rank[static_cast<size_t>(group.rank())] = group.traffic();
        if (group.rank() == 0) layers = static_cast<int64_t>(model->moe_layers().size());
      });
      const int64_t P = ranks, E = 4, R = 2 * 12 * 4, C = 24;
      for (const Traffic& traffic : of_rank) {
        EXPECT_EQ(traffic.of(Collective::all_to_all).bytes, layers * (P - 1) * (E / P) * 8);
        EXPECT_EQ(traffic.of(Collective::all_to_all_v).bytes, layers * 4 * (R * (P - 1) / P) * C * 4);
        EXPECT_EQ(traffic.total().bytes,
                  traffic.of(Collective::all_to_all).bytes + traffic.of(Collective::all_to_all_v).bytes);
      }
    }
}

}  // namespace
}  // namespace athanor::tests::traffic_test
