// Layers of experts whose tokens the ranks of a tensor group share out: with all other axes they compute what one process
// computes, each rank its own rows.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>

#include "athanor/comm/shm/thread.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "athanor/parallel/tensor/tensor_parallel.h"
#include "support/tiers.h"
#include "train/faulty_group.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::tensor_expert_test {
namespace {

// Six experts of which a token goes to three, in micro-batches of 22, 22 and 11 tokens: of three sequences and one of 11. Both
// styles with drops; "moe" with the balancing loss, "moe_bias" with the bias of exact counts and a shared expert.
Config six_experts(const std::string& style, const std::string& optimizer = "sgd") {
  Config config = uneven(style, optimizer);
  config.model.num_attention_heads = 6;
  config.model.num_key_value_heads = 6;
  config.model.head_dim = 4;
  config.model.intermediate_size = 66;
  config.model.num_experts = 6;
  config.model.num_experts_per_tok = 3;
  config.model.capacity_factor = style == std::string("moe") ? 0.75 : 1.25;
  if (style == std::string("moe")) config.model.router_aux_loss_coef = 0.2;
  config.train.steps = 4;
  return config;
}

// Each rank routes its own rows of a pass, and no other's.
TEST(TensorExperts, RanksComputeTheirOwnRows) {
  for (const int ranks : {2, 3, 6}) {
    const Config config = six_experts("moe");
    std::mutex mutex;
    std::map<int, std::vector<RouterLoad>> loads;
    run_ranks(make_thread_groups(ranks), [&](Group& group) {
      Engine engine;
      const auto model = make_model(config.model);
      shard_model(*model, sharding_of(config.model, false), group);
      model->allocate(engine.arena, Dtype::f32, true);
      model->initialize(1);
      for (Weight* weight : model->weights())
        weight->set_grad(zeros(engine.arena, weight->param().shape(), Dtype::f32, Category::gradients));
      const Batch batch = make_batch(config, 1, 0);
      Tape tape(
          {.num_sequences = batch.num_sequences, .seq_len = batch.seq_len, .record = true, .dropout = true});
      const auto tensor = [&](const std::vector<int32_t>& ids) {
        return to_tensor(engine.arena, ids, batch.num_sequences, batch.seq_len);
      };
      tape.backward(model->loss(tape, {.ids = tensor(batch.tokens), .targets = tensor(batch.targets)},
                                RecomputePlan{}));
      const std::lock_guard lock(mutex);
      for (MoeLayer* layer : model->moe_layers()) loads[group.rank()].push_back(layer->take_load());
    });
    std::vector<int64_t> tokens(2, 0), choices(2, 0);
    for (const auto& [rank, layers] : loads) {
      ASSERT_EQ(layers.size(), tokens.size());
      for (size_t l = 0; l < layers.size(); ++l) {
        EXPECT_EQ(layers[l].tokens, own_rows(22, rank, ranks).count()) << "rank " << rank << " of " << ranks;
        tokens[l] += layers[l].tokens;
        choices[l] += std::accumulate(layers[l].chosen.begin(), layers[l].chosen.end(), int64_t{0});
      }
    }
    EXPECT_EQ(tokens, std::vector<int64_t>(2, 22));
    EXPECT_EQ(choices, std::vector<int64_t>(2, 3 * 22));
  }
}

// What is done wrong on every rank.
struct TensorExpertFault {
  GroupFault of_group = {.call = "no such call"};     // of the tensor group
  std::string not_summed = {};                        // a row of the table whose gradients stay parts
  bool experts_over_dp = false, others_rows = false;  // sums of one rank's tokens; the rows of the next rank
};

class TensorExpertFaults {
 public:
  LayoutHooks plant(const Config& config, const TensorExpertFault& fault) {
    table_ = sharding_of(config.model, config.parallel.sp);
    for (ShardingRow& row : table_)
      if (row.module == fault.not_summed) row.split = Split::none;
    return {.groups =
                [this, fault](Groups& groups) {
                  groups.tensor = &over(*groups.tensor, fault.of_group);
                  if (fault.experts_over_dp) groups.expert.sum = groups.expert.shard = groups.data;
                },
            .sharding = &table_,
            .declared =
                [this, fault](Training& training) {
                  for (MoeLayer* layer : training.model->moe_layers()) {
                    if (!fault.others_rows) continue;
                    FaultyGroup& other = over(*training.groups().tensor, fault.of_group);
                    other.pretend((other.rank() + 1) % other.size());
                    layer->partition_tokens(std::make_unique<PartitionedTokens>(other));
                  }
                }};
  }

 private:
  FaultyGroup& over(Group& real, const GroupFault& fault) {
    const std::scoped_lock lock(mutex_);
    return groups_.emplace_back(real, fault);
  }
  Sharding table_;
  std::mutex mutex_;
  std::list<FaultyGroup> groups_;
};

TEST(TensorExperts, PlantedFaultsAreCaught) {
  for (const char* style : {"moe", "moe_bias"})
    for (const bool sp : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", style, sp ? " sp" : ""));
      Config config = six_experts(style);
      config.train.global_batch_size = 4;  // two micro-batches of which each rank has eleven tokens
      const VerifyRun one = run_layout(one_process(config));
      config = in_axes(config, {.dp = 2, .tp = 2, .sp = sp});
      const auto expect_caught = [&](const char* what, const TensorExpertFault& fault) {
        TensorExpertFaults planted;
        EXPECT_TRUE(is_caught(config, one, planted.plant(config, fault), 10 * kTolerance))
            << what << " went unseen";
      };
      TensorExpertFaults none;
      EXPECT_LE(compare(run_layout(config, none.plant(config, {})), one).worst(), kTolerance)
          << "without a fault";
      expect_caught("a router's gradient of one rank's tokens", {.not_summed = "blocks.*.moe.router"});
      expect_caught("experts that saw one rank's tokens", {.experts_over_dp = true});
      expect_caught("the rows of another rank", {.others_rows = true});
      const char* const choices = "choices of all tokens";
      expect_caught("choices that are not gathered", {.of_group = {.call = choices, .change = zeroed}});
      expect_caught("choices in another order", {.of_group = {.call = choices, .change = halves_swapped}});
      if (!sp)
        expect_caught("gradients of rows in another order",
                      {.of_group = {.call = "scatter_to backward", .change = halves_swapped}});
      if (config.model.n_shared_experts == 0) continue;
      expect_caught("a shared expert's gradient of one rank's tokens",
                    {.not_summed = "blocks.*.moe.shared.*"});
      expect_caught("a bias that moves by one rank's tokens",
                    {.of_group = {.call = "expert load", .skipped = true}});
    }
}

// What the groups of an axis put on the wire in one step of one micro-batch, summed over the ranks.
Traffic step_traffic(Config config, const Axes& layout,
                     const std::function<const Group&(const Groups&)>& group_of) {
  config.train.steps = 1;
  config.train.global_batch_size = config.train.micro_batch_size;
  std::mutex mutex;
  Traffic sum;
  run_layout(in_axes(config, layout), {.end = [&](Training& training, TrainState&, World&) {
               const std::scoped_lock lock(mutex);
               sum += group_of(training.groups()).traffic();
             }});
  return sum;
}

const Group& tensor_of(const Groups& groups) {
  return *groups.tensor;
}
const Group& experts_of(const Groups& groups) {
  return *groups.experts;
}
const Group& copies_of(const Groups& groups) {
  return *groups.expert.sum;
}

// Of docs/moe.md. N tokens, of which n = ceil(N/P) lie on a rank.
TEST(TensorExperts, BytesAreThoseOfTheFormulas) {
  for (const char* style : {"moe", "moe_bias"})
    for (const int ranks : {2, 3})
      for (const bool sp : {false, true}) {
        SCOPED_TRACE(fmt::format("{} tp {}{}", style, ranks, sp ? " sp" : ""));
        const Config config = six_experts(style);
        const ModelConfig& m = config.model;
        const int64_t P = ranks, N = 22, n = partitioned_rows(N, ranks), C = m.hidden_size,
                      K = m.num_experts_per_tok, layers = m.num_hidden_layers - m.first_k_dense_replace;
        int64_t partial = 0, stacks = 0;
        const auto model = make_model(m);
        for (const auto& param : model->params()) {
          const bool is_norm = param->name().find("norm") != std::string::npos;
          const bool is_part =
              param->name().ends_with("router.weight") || param->name().find("shared") != std::string::npos;
          if (is_part || (sp && is_norm)) partial += param->numel();
          if (param->is_stack()) stacks += (param->numel() + 15) / 16 * 16;
        }
        const Axes layout{.tp = ranks, .sp = sp};
        // Attention two each way, a dense layer as many; the embedding and the head.
        const int64_t sums = 2 * m.num_hidden_layers + 2 * m.first_k_dense_replace + 2;
        const int64_t load = 8 * (2 + layers * m.num_experts) + 8 * 2 * layers;
        const int64_t choices = layers * n * K * 4, statistics = 12 * N;
        const Traffic tensor = step_traffic(config, layout, tensor_of);
        EXPECT_EQ(tensor.of(Collective::all_reduce).bytes,
                  2 * (P - 1) * ((sp ? 0 : sums * N * C * 4) + 4 * partial + load + 8));
        EXPECT_EQ(tensor.of(Collective::all_gather).bytes,
                  P * (P - 1) * (statistics + choices + (sp ? sums : 2 * layers) * n * C * 4));
        EXPECT_EQ(tensor.of(Collective::reduce_scatter).bytes, sp ? P * (P - 1) * sums * n * C * 4 : 0);
        EXPECT_EQ(tensor.total().bytes, tensor.of(Collective::all_reduce).bytes +
                                            tensor.of(Collective::all_gather).bytes +
                                            tensor.of(Collective::reduce_scatter).bytes);
        const Traffic copies = step_traffic(config, layout, copies_of);
        EXPECT_EQ(copies.total().bytes, 2 * (P - 1) * 4 * stacks);
      }
}

// Where every token goes to every expert, (P-1)/P of the rows lie elsewhere: of each token once.
TEST(TensorExperts, RowsTravelOnce) {
  for (const char* style : {"moe", "moe_bias"})
    for (const int ranks : {2, 3}) {
      Config config = six_experts(style);
      config.model.num_experts_per_tok = 6;
      config.model.capacity_factor = 0.0;
      const ModelConfig& m = config.model;
      const int64_t P = ranks, R = 22 * 6, layers = m.num_hidden_layers - m.first_k_dense_replace;
      const Traffic traffic = step_traffic(config, {.tp = ranks, .ep = ranks}, experts_of);
      EXPECT_EQ(traffic.of(Collective::all_to_all).bytes, P * layers * (P - 1) * (m.num_experts / P) * 8);
      EXPECT_EQ(traffic.of(Collective::all_to_all_v).bytes,
                layers * 4 * (R * (P - 1) / P) * m.hidden_size * 4);
    }
}

// Law 7: a rank has n = ceil(N/P) tokens of a layer of experts, and the plan knows it. With a capacity as many rows as can
// be are planned, whatever is dropped.
TEST(TensorExperts, ThePlanBoundsWhatTheyNeed) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const char* style : {"moe", "moe_bias"})
    for (const double capacity : {0.0, 0.75, 1.25, 4.0})
      for (const bool sp : {false, true})
        for (const Axes& layout : {Axes{}, Axes{.tp = 2}, Axes{.dp = 2, .tp = 2, .ep = 2, .zero = 3},
                                   Axes{.tp = 3, .zero = 1}, Axes{.tp = 2, .ep = 2}}) {
          Axes each = layout;
          each.sp = sp && layout.tp > 1;
          Config config = in_axes(six_experts(style, "adamw"), each);
          config.model.capacity_factor = capacity;
          config.train.steps = 2;
          run_layout(
              config, {.end = [&](Training& training, TrainState&, World& world) {
                const uint64_t planned =
                                   plan_memory({config, 2, world.rank(), world.size()}).usage.peak_total,
                               measured = training.arena.usage().peak_total;
                const std::string what =
                    fmt::format("{} {} capacity {} rank {}", style, text_of(each), capacity, world.rank());
                EXPECT_LE(measured, planned) << what;
                if (each.ep > 1) return;  // where all tokens may choose the experts of one rank
                EXPECT_GE((capacity > 0.0 ? 1.25 : 1.03) * static_cast<double>(measured),
                          static_cast<double>(planned))
                    << what;
              }});
        }
}

}  // namespace
}  // namespace athanor::tests::tensor_expert_test
