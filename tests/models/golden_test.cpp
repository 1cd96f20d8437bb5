// Design §7: PyTorch as the outside oracle, on models that were trained, so that a missing rotation or a
// missing 1/sqrt(d) shows. The weights come in through the Hugging Face import.

#include <cmath>
#include <filesystem>
#include <numeric>

#include "athanor/config/presets.h"
#include "models/golden.h"

namespace athanor::tests::golden_test {
namespace {

struct Pass {
  double loss = 0.0;
  std::vector<float> token_losses;
};

Tensor to_tensor(Engine& engine, const std::vector<int32_t>& ids) {
  Tensor tensor = empty(engine.arena, {kGoldenBatch, kGoldenLength}, Dtype::i32, Category::activations);
  copy_from_host(tensor, ids.data(), tensor.size_bytes());
  return tensor;
}

// Forward on batch 0, and backward where the model has gradient slots.
Pass run(Engine& engine, const Model& model, const nlohmann::json& golden, bool backward) {
  Tape tape({.record = backward});
  const Tensor ids = to_tensor(engine, golden_ids(golden, 0, "tokens"));
  const Tensor targets = to_tensor(engine, golden_ids(golden, 0, "targets"));
  const Var loss = model.loss(tape, {.ids = ids, .targets = targets}, {});
  Pass pass;
  pass.token_losses = to_floats(loss.value);
  pass.loss = std::accumulate(pass.token_losses.begin(), pass.token_losses.end(), 0.0) /
              static_cast<double>(pass.token_losses.size());
  if (backward) tape.backward(loss);
  return pass;
}

double norm(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  const nlohmann::json golden = golden_json(GetParam());
};

TEST_P(Golden, LossOfEveryTokenIsThatOfPyTorch) {
  Engine engine;
  const LoadedModel loaded = load_model(system_env(), golden_folder(GetParam()), engine.arena, Dtype::f32);
  EXPECT_EQ(loaded.model->num_params(), golden["parameters"].get<int64_t>());
  EXPECT_EQ(loaded.step, 0);
  const Pass pass = run(engine, *loaded.model, golden, false);
  EXPECT_NEAR(pass.loss, golden["f64"]["loss"].get<double>(), 1e-6);
  size_t next = 0;
  for (const auto& row : golden["f64"]["token_losses"])
    for (const auto& expected : row)
      EXPECT_NEAR(pass.token_losses[next++], expected.get<double>(), 2e-5) << "token " << next;
  // Models that are wrong on purpose lie further off than rounding ever could.
  for (const auto& [key, value] : golden.items())
    if (key.rfind("loss_wrong_", 0) == 0) {
      EXPECT_GT(std::abs(pass.loss - value.get<double>()), 1e-2) << key;
    }
}

TEST_P(Golden, GradientOfEveryParameterIsThatOfPyTorch) {
  for (const char* recompute : {"none", "selective", "full", "group:2"}) {
    Engine engine(2);
    const LoadedModel loaded = load_model(system_env(), golden_folder(GetParam()), engine.arena, Dtype::f32);
    for (Weight* weight : loaded.model->weights())
      weight->set_grad(zeros(engine.arena, weight->param().shape(), Dtype::f32, Category::gradients));
    if (recompute != std::string("none")) {
      Tape tape({.record = true});
      tape.backward(loaded.model->loss(tape,
                                       {.ids = to_tensor(engine, golden_ids(golden, 0, "tokens")),
                                        .targets = to_tensor(engine, golden_ids(golden, 0, "targets"))},
                                       *parse_recompute(recompute)));
    } else {
      run(engine, *loaded.model, golden, true);
    }

    // The gradients come under the names and in the shapes of the weights: read as if they were a model.
    const std::string folder =
        (std::filesystem::path(::testing::TempDir()) / (std::string("athanor_grads_") + GetParam())).string();
    std::filesystem::create_directories(folder);
    constexpr auto kOverwrite = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(golden_folder(GetParam()) + "/config.json", folder + "/config.json",
                               kOverwrite);
    std::filesystem::copy_file(golden_folder(GetParam()) + "/grads.safetensors",
                               folder + "/model.safetensors", kOverwrite);
    const HfWeights expected(system_env(), folder);

    double largest = 0.0;
    std::map<std::string, std::vector<float>> truth;
    for (const auto& param : loaded.model->params()) {
      auto& values = truth[param->name()];
      values.resize(static_cast<size_t>(param->numel()));
      expected.read(param->name(), values.data());
      largest = std::max(largest, norm(values));
    }
    for (const auto& param : loaded.model->params()) {
      std::vector<float> difference = truth[param->name()];
      std::vector<double> sum(difference.size(), 0.0);
      for (const auto& use : param->uses()) {
        const std::vector<float> grad = to_floats(use->grad());
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{grad[i]} / (kGoldenBatch * kGoldenLength);
      }
      for (size_t i = 0; i < sum.size(); ++i) difference[i] -= static_cast<float>(sum[i]);
      EXPECT_LE(norm(difference), std::max(1e-5 * norm(truth[param->name()]), 1e-7 * largest))
          << param->name();
    }
    std::filesystem::remove_all(folder);
  }
}

TEST_P(Golden, HalfPrecisionComesClose) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    Engine engine;
    const LoadedModel loaded = load_model(system_env(), golden_folder(GetParam()), engine.arena, dtype);
    for (const auto& param : loaded.model->params()) {
      EXPECT_EQ(param->value().dtype(), dtype);
      EXPECT_FALSE(param->master().defined());
    }
    const double expected = golden["f64"]["loss"].get<double>();
    EXPECT_NEAR(run(engine, *loaded.model, golden, false).loss, expected, 0.01 * expected) << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(kGoldenModels),
                         [](const auto& each) { return std::string(each.param); });

TEST(Presets, CountsAreThoseOfTheDeclaredModels) {
  for (const std::string& name : preset_names()) {
    const ModelConfig config = preset_model(name);
    EXPECT_EQ(make_model(config)->num_params(), num_params(config)) << name;  // declares, allocates nothing
  }
}

}  // namespace
}  // namespace athanor::tests::golden_test
