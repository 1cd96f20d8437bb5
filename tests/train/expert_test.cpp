// Mixtures of experts in training: loads and biases that do not depend on the layout, state that survives, a memory plan
// that holds whatever the routing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "athanor/engine/memory_plan.h"
#include "checkpoint/content.h"
#include "train/small_training.h"

namespace athanor::tests::expert_test {
namespace {

const Param& param_of(const Training& training, const std::string& name) {
  for (const auto& param : training.model->params())
    if (param->name() == name) return *param;
  fail("test: no parameter '{}'", name);
}

// With reduce = tree every number of a step has the same bits on any number of ranks: the loads too.
TEST(Experts, LoadsDropsAndRouterLossesAreThoseOfOneProcess) {
  for (const char* style : {"moe", "moe_bias"})
    for (const double capacity : {0.0, 0.8}) {
      Config config = tiny(style);
      config.parallel.reduce = "tree";
      config.model.capacity_factor = capacity;
      const Outcome one = run(config, 1);
      for (const int ranks : {2, 3, 5}) {
        const Outcome many = run(config, ranks);
        EXPECT_TRUE(same_bits(one, many)) << style << " " << ranks;
        for (size_t i = 0; i < one.steps.size(); ++i) {
          ASSERT_TRUE(one.steps[i].experts && many.steps[i].experts);
          EXPECT_EQ(one.steps[i].experts->layers, many.steps[i].experts->layers);
          EXPECT_EQ(one.steps[i].experts->drop_share, many.steps[i].experts->drop_share);
          EXPECT_EQ(one.steps[i].experts->aux_loss, many.steps[i].experts->aux_loss);
          EXPECT_EQ(one.steps[i].experts->z_loss, many.steps[i].experts->z_loss);
        }
      }
      const ExpertLoad& load = *one.steps[0].experts;
      EXPECT_EQ(load.layers.size(), style == std::string("moe") ? 2u : 1u);
      EXPECT_GT(load.max_over_mean, 1.0);
      EXPECT_GT(load.z_loss, 0.0);
      EXPECT_EQ(load.drop_share > 0.0, capacity > 0.0);
    }
  EXPECT_FALSE(run(tiny("llama"), 1).steps[0].experts.has_value());
}

// The loss that is reported is cross-entropy alone; the auxiliary ones move the router.
TEST(Experts, AuxiliaryLossesMoveTheGradientsAndNotTheLoss) {
  Config with = tiny("moe"), without = tiny("moe");
  without.model.router_aux_loss_coef = without.model.router_z_loss_coef = 0.0;
  const Outcome a = run(with, 1), b = run(without, 1);
  EXPECT_EQ(a.steps[0].loss, b.steps[0].loss);
  EXPECT_NE(a.steps[0].grad_norm, b.steps[0].grad_norm);
}

TEST(Experts, TheBiasMovesOnceAStepByTheLoadOfTheWholeStep) {
  Config config = tiny("moe_bias");
  config.train.steps = 3;
  std::vector<std::vector<float>> biases;
  run(config, 1, 1, [&](const Training& training) {
    biases.push_back(to_floats(param_of(training, "blocks.1.moe.router.bias").value()));
  });
  ASSERT_EQ(biases.size(), 3u);
  for (const float value : biases[0]) {
    const double steps = std::abs(value) / 0.02;
    EXPECT_TRUE(steps == 0.0 || std::abs(steps - 1.0) < 1e-6) << value;
  }
  EXPECT_NE(biases[0], biases[2]);
}

TEST(Experts, ASkippedStepLeavesTheBiasAlone) {
  Config config = tiny("moe_bias");
  config.precision.compute = "f16";
  config.precision.loss_scale = 1e30;  // certain to overflow
  config.train.steps = 1;
  run(config, 1, 1, [&](const Training& training) {
    const Param& bias = param_of(training, "blocks.1.moe.router.bias");
    EXPECT_EQ(bias.value().dtype(), Dtype::f32);
    EXPECT_EQ(to_floats(bias.value()), std::vector<float>(5, 0.0f));
  });
}

// Law 5: what a checkpoint holds is enough to go on bit for bit, biases included.
TEST(Experts, TrainingGoesOnFromACheckpoint) {
  const TestFolder folder;
  Config config = tiny("moe_bias");
  config.train.steps = 4;
  const auto world = make_single_world();
  Outcome whole, resumed;
  for (const bool stop : {false, true}) {
    Outcome& outcome = stop ? resumed : whole;
    auto engine = std::make_unique<Engine>();
    auto rank = std::make_unique<TrainingRank>(config, *world, engine->arena);
    rank->training.allocate();
    rank->training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      int64_t micro_batch = 0;
      Batch batch;
      outcome.steps.push_back(rank->training.role->step(state, [&]() -> const Batch& {
        batch = make_batch(config, step, micro_batch++);
        return batch;
      }));
      if (!stop || step != 2) continue;
      const std::string path = write_checkpoint(
          system_env(), *rank->groups.all, folder.file("checkpoints"),
          {.step = step, .state = state.to_json(), .tensors = rank->training.tensors(), .files = {}});
      rank.reset();
      engine = std::make_unique<Engine>();
      rank = std::make_unique<TrainingRank>(config, *world, engine->arena);
      rank->training.allocate();
      rank->training.load(Checkpoint::open(system_env(), path));
    }
    for (const auto& param : rank->training.model->params()) {
      const std::vector<float> values = to_floats(param->master());
      outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
    }
  }
  EXPECT_TRUE(same_bits(whole, resumed));
}

// Dropless: the rows are tokens times experts per token whatever the routing, and the plan counts the products that need
// the most workspace. So it is a bound, and a close one.
TEST(Experts, TheMemoryPlanBoundsEveryRouting) {
  for (const char* style : {"moe", "moe_bias"})
    for (const char* compute : {"f32", "bf16"})
      for (const char* recompute : {"none", "selective", "full"}) {
        Config config = tiny(style);
        config.precision.compute = compute;
        config.parallel.recompute = recompute;
        uint64_t measured = 0;
        run(config, 1, 1, [&](const Training& training) { measured = training.arena.usage().peak_total; });
        const uint64_t planned = plan_memory({config, 2}).usage.peak_total;
        EXPECT_LE(measured, planned) << style << compute << recompute;
        EXPECT_GE(1.03 * static_cast<double>(measured), static_cast<double>(planned))
            << style << compute << recompute;
      }
}

TEST(Experts, FlopsCountTheExpertsOfAToken) {
  const ModelConfig moe = preset_model("mixtral-8x7b");
  const auto model = make_model(moe);
  // Attention and gates of 32 layers, two of eight experts, the head; 12.7 billion of 46.7 are products of a token.
  const double attention = 4096.0 * (2 * 4096 + 2 * 1024), expert = 3.0 * 4096 * 14336;
  const double products = 32 * (attention + 8 * 4096 + 2 * expert) + 32000.0 * 4096;
  EXPECT_DOUBLE_EQ(model->flops_per_token(0), 6 * products);
}

}  // namespace
}  // namespace athanor::tests::expert_test
