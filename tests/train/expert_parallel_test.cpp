// Law 1 for axis ep: experts that lie on several ranks compute what one process computes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/engine/param_slices.h"
#include "athanor/parallel/expert/expert_parallel.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::expert_parallel_test {
namespace {

Config eight_experts(const std::string& style) {
  Config config = tiny(style);
  config.precision.compute = "f32";
  config.model.num_experts = 8;
  config.train.global_batch_size = 8;  // four micro-batches
  return config;
}

bool is_expert(const Weight& weight) {
  return weight.param().shape().dims() == 3;
}

TEST(ExpertParallel, ForgottenAndSuperfluousSumsShow) {
  Config config = eight_experts("moe");
  config.optimizer.name = "sgd";
  const VerifyRun& one = run_once(one_process(config));
  const auto summed_over = [](Group* Groups::*axis) {
    return LayoutHooks{
        .groups = [axis](Groups& groups) { groups.expert.sum = groups.expert.shard = groups.*axis; }};
  };
  EXPECT_TRUE(is_caught(in_axes(config, {.dp = 4, .ep = 2}), one, summed_over(&Groups::pipeline), 1e-3))
      << "a group of one: forgotten";
  EXPECT_TRUE(is_caught(in_axes(config, {.dp = 4, .ep = 2}), one, summed_over(&Groups::data), 1e-3))
      << "of other experts, too";
  EXPECT_FALSE(is_caught(in_axes(config, {.dp = 4, .ep = 2}), one, {}, 1e-5)) << "as it should be";
}

// A layer as the root of its own tree.
struct LayerAlone : Module {
  explicit LayerAlone(bool shared)
      : Module(nullptr, ""),
        moe(this, "moe",
            {.width = 6,
             .experts = 8,
             .expert_width = 5,
             .shared_width = shared ? 3 : 0,
             .route = {{.aux_loss = 0.1f}, 3, 0.0},
             .bias_rate = 0.0,
             .init_std = 0.5,
             .output_init_std = 0.5}) {}
  void allocate(Arena& arena) {
    for (const auto& param : params()) {
      param->allocate(arena, Dtype::f32, false);
      param->initialize(3);
    }
    for (Weight* weight : weights())
      weight->set_grad(zeros(arena, weight->param().shape(), Dtype::f32, Category::gradients));
  }
  MoeLayer moe;
};

// Forward and backward of the rows [first, last) of the same x and dy.
std::pair<std::vector<float>, std::vector<float>> pass(Engine& engine, const MoeLayer& moe, int64_t first,
                                                       int64_t last) {
  Tape tape(PassContext{.record = true});
  const Var x = tape.leaf(engine.random({1, 9, 6}, "x").view({9, 6}).slice(first, last));
  const Var y = moe(x);
  tape.backward(y, engine.random({9, 6}, "dy").slice(first, last));
  return {to_floats(y.value), to_floats(tape.grad(x))};
}

TEST(ExpertParallel, RanksMayHaveAnyNumberOfTokens) {
  for (const bool shared : {false, true})
    for (const std::vector<int64_t>& ends :
         {std::vector<int64_t>{5, 9}, {5, 5, 8, 9}, {0, 0, 0, 9}, {0, 0}}) {
      std::vector<std::pair<std::vector<float>, std::vector<float>>> expected;  // each rank's own pass, alone
      WholeTensors gradients;
      Engine engine;
      LayerAlone alone(shared);
      alone.allocate(engine.arena);
      for (size_t rank = 0; rank < ends.size(); ++rank)
        expected.push_back(pass(engine, alone.moe, rank == 0 ? 0 : ends[rank - 1], ends[rank]));
      const auto groups = make_thread_groups(static_cast<int>(ends.size()));
      Gathering gathered;
      run_ranks(groups, [&](Group& group) {
        Engine own;
        LayerAlone layer(shared);
        ExpertParallel exchange(group);
        exchange.split(layer.moe);
        layer.allocate(own.arena);
        const auto rank = static_cast<size_t>(group.rank());
        const auto [y, dx] = pass(own, layer.moe, rank == 0 ? 0 : ends[rank - 1], ends[rank]);
        ASSERT_EQ(y.size(), expected[rank].first.size());
        for (size_t i = 0; i < y.size(); ++i) {
          EXPECT_NEAR(y[i], expected[rank].first[i], 1e-5);
          EXPECT_NEAR(dx[i], expected[rank].second[i], 1e-5);
        }
        std::vector<NamedTensor> parts;
        for (Weight* weight : layer.weights())
          if (is_expert(*weight))
            add_slices(parts, "gradient", weight->param(), weight->param().range(), {weight->grad()});
        for (const NamedTensor& part : parts) gathered.put(part);
      });
      const WholeTensors whole = gathered.whole();
      for (Weight* weight : alone.weights()) {
        if (!is_expert(*weight)) continue;
        const std::vector<float> truth = to_floats(weight->grad());
        for (size_t i = 0; i < truth.size(); ++i)
          EXPECT_NEAR(whole.at("gradient." + weight->param().name())[i], truth[i], 1e-5)
              << weight->param().name();
      }
    }
}

// Law 7: the plan has room for all rows of all ranks, whoever they choose.
TEST(ExpertParallel, TheNullDeviceCountsEveryRowOfEveryRank) {
  const auto null_queue = make_null_queue();
  Arena planned(*null_queue);
  const auto groups = make_thread_groups(2);
  LayerAlone layer(false);
  ExpertParallel exchange(*groups[0]);
  exchange.split(layer.moe);
  for (const auto& param : layer.params()) param->allocate(planned, Dtype::f32, false);
  Tape tape(PassContext{.record = true});
  const Tensor x = empty(planned, {9, 6}, Dtype::f32, Category::activations);
  Routing routing;
  routing.experts = empty(planned, {9, 3}, Dtype::i32, Category::activations);
  routing.counts.kept.assign(8, 0);
  EXPECT_EQ(exchange.plan(x, routing)->counts, (std::vector<int64_t>{18, 18, 18, 0}));
  routing.capacity = 8;  // of each rank's micro-batch
  EXPECT_EQ(exchange.plan(x, routing)->counts, (std::vector<int64_t>{16, 16, 16, 6}));
}

TEST(ExpertParallel, ExpertsThatDoNotDivideAreRefused) {
  Config config = eight_experts("moe");
  config.model.num_experts = 6;
  try {
    run_layout(in_axes(config, {.dp = 4, .ep = 4}));
    ADD_FAILURE() << "6 experts on 4 ranks";
  } catch (const Failure& error) {
    EXPECT_NE(std::string(error.what()).find("'blocks.0.moe' has 6 experts for 4 ranks"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace athanor::tests::expert_parallel_test
