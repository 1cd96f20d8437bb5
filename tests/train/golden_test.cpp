// Design §7: 20 steps of AdamW and of SGD against PyTorch, losses and gradient norms. AdamW alone would hide
// a gradient that is off by a factor.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/comm/group.h"
#include "athanor/engine/setup.h"
#include "models/golden.h"
#include "train/small_training.h"

namespace athanor::tests::golden_test {
namespace {

constexpr int64_t kGoldenSteps = 20;

struct Trained {
  std::vector<double> losses, grad_norms;
  std::vector<std::pair<std::string, double>> param_norms;  // after the last step
};

Config golden_config(const std::string& model, const nlohmann::json& golden, const std::string& optimizer) {
  Config config = HfWeights(system_env(), golden_folder(model)).config();
  const auto& settings = golden[optimizer];
  config.optimizer.name = optimizer;
  config.optimizer.lr = settings["lr"].get<double>();
  config.optimizer.weight_decay = settings["weight_decay"].get<double>();
  config.optimizer.max_grad_norm = settings["clip"].get<double>();
  if (optimizer == "adamw") {
    config.optimizer.betas = {settings["betas"][0].get<double>(), settings["betas"][1].get<double>()};
    config.optimizer.eps = settings["eps"].get<double>();
  } else {
    config.optimizer.momentum = settings["momentum"].get<double>();
  }
  config.schedule.decay = "constant";
  config.schedule.warmup_steps = 0;
  config.data.seq_len = kGoldenLength;
  config.train.steps = kGoldenSteps;
  config.train.global_batch_size = kGoldenBatch;
  // Two micro-batches of 2 and 1 sequences; of experts one, since balancing losses are those of a micro-batch.
  config.train.micro_batch_size = config.model.has_experts() ? kGoldenBatch : 2;
  return config;
}

Trained train_golden(const std::string& model, const nlohmann::json& golden, const Config& config) {
  Engine engine(2);
  const auto world = make_single_world();
  TrainingRank rank(config, *world, engine.arena, 1);
  Training& training = rank.training;
  training.allocate();
  load_params(system_env(), golden_folder(model), *training.model);
  TrainState state = first_state(config);
  Trained trained;
  Batch batch;
  for (int64_t step = 0; step < kGoldenSteps; ++step) {
    const auto tokens = golden_ids(golden, step, "tokens"), targets = golden_ids(golden, step, "targets");
    int64_t micro_batch = 0;
    const StepResult result = training.role->step(state, [&]() -> const Batch& {
      const int64_t first = micro_batch * config.train.micro_batch_size;
      const int64_t last = std::min(first + config.train.micro_batch_size, kGoldenBatch);
      batch = {.step = step + 1,
               .micro_batch = micro_batch++,
               .first_index = first,
               .num_sequences = last - first,
               .seq_len = kGoldenLength,
               .tokens = {tokens.begin() + first * kGoldenLength, tokens.begin() + last * kGoldenLength},
               .targets = {targets.begin() + first * kGoldenLength, targets.begin() + last * kGoldenLength},
               .channel_of = std::vector<int32_t>(static_cast<size_t>(last - first), 0)};
      return batch;
    });
    trained.losses.push_back(result.loss);
    trained.grad_norms.push_back(result.grad_norm);
  }
  for (const auto& param : training.model->params()) {
    double sum = 0.0;
    for (const float value : to_floats(param->master())) sum += double{value} * double{value};
    trained.param_norms.emplace_back(param->name(), std::sqrt(sum));
  }
  return trained;
}

class GoldenSteps : public ::testing::TestWithParam<const char*> {
 protected:
  const nlohmann::json golden = golden_json(GetParam());
};

TEST_P(GoldenSteps, FollowPyTorchWithAdamWAndWithSgd) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const Trained trained = train_golden(GetParam(), golden, golden_config(GetParam(), golden, optimizer));
    const auto& expected = golden["f64"][optimizer];
    for (size_t step = 0; step < kGoldenSteps; ++step) {
      const double loss = expected["losses"][step].get<double>();
      const double norm = expected["grad_norms"][step].get<double>();
      EXPECT_NEAR(trained.losses[step], loss, 1e-5 * loss) << optimizer << " step " << step + 1;
      EXPECT_NEAR(trained.grad_norms[step], norm, 1e-5 * norm) << optimizer << " step " << step + 1;
    }
    // Those of the parameters that are one tensor there too.
    size_t compared = 0;
    for (const auto& [name, norm] : trained.param_norms) {
      for (const auto& [theirs, value] : expected["final_param_norms"].items()) {
        const bool same =
            (name == "embed.weight" &&
             (theirs.ends_with("wte.weight") || theirs.ends_with("embed_tokens.weight") ||
              theirs.ends_with("word_embeddings.weight"))) ||
            (name == "norm.weight" &&
             (theirs.ends_with("ln_f.weight") || theirs == "model.norm.weight" ||
              theirs.ends_with("transform.LayerNorm.weight") || theirs == "lm_head.layer_norm.weight"));
        if (!same) continue;
        ++compared;
        EXPECT_NEAR(norm, value.get<double>(), 1e-5 * value.get<double>()) << optimizer << " " << name;
      }
    }
    EXPECT_EQ(compared, 2u);
  }
}

TEST_P(GoldenSteps, InHalfPrecisionStayWithinOnePercent) {
  for (const std::string compute : {"bf16", "f16"}) {
    Config config = golden_config(GetParam(), golden, "adamw");
    config.precision.compute = compute;
    const Trained trained = train_golden(GetParam(), golden, config);
    for (size_t step = 0; step < kGoldenSteps; ++step) {
      const double loss = golden["f64"]["adamw"]["losses"][step].get<double>();
      EXPECT_NEAR(trained.losses[step], loss, 0.01 * loss) << compute << " step " << step + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenSteps, ::testing::ValuesIn(kGoldenModels),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace athanor::tests::golden_test
