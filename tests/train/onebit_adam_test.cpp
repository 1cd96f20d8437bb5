// 1-bit Adam against its definition: virtual ranks one after the other, the optimizer in plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/train/engine/compression_state.h"
#include "support/compression_definition.h"
#include "support/temporary_folder.h"
#include "train/layout_run.h"
#include "train/virtual_ranks.h"

namespace athanor::tests::onebit_adam_test {
namespace {

constexpr int64_t kWarmup = 3;

Config onebit(const char* family) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.train.steps = 8;
  config.compression.method = "onebit-adam";
  config.compression.warmup_steps = kWarmup;
  return config;
}

struct OneBitDefinition {
  std::vector<double> losses, grad_norms;
  int skipped = 0;
  Floats weights;
};

struct State {
  Floats m, v;
};

OneBitDefinition define_onebit(const Config& config, int ranks) {
  Engine engine;
  const auto group = make_single_group();
  Config alone = config;
  alone.parallel.ep = 1;
  Training training(alone, 2, *group, engine.arena, nullptr, nullptr);
  training.allocate();
  training.model->initialize(config.train.seed);
  CompressionDefinition codes("onebit", true);
  std::map<const Param*, State> states;
  const auto beta1 = static_cast<float>(config.optimizer.betas[0]),
             beta2 = static_cast<float>(config.optimizer.betas[1]);
  OneBitDefinition run;
  const auto is_stack = [](const Param* param) { return matrices_of(*param).count > 1; };
  LossScale loss_scale = first_state(config).loss_scale;
  for (int64_t of_run = 1, step = 1; of_run <= config.train.steps; ++of_run) {
    const bool warm = step <= kWarmup;
    std::map<const Param*, std::vector<Floats>> of_rank;
    Accumulated all;
    for (int rank = 0; rank < ranks; ++rank) {
      const Accumulated done =
          accumulate(training, config, of_run, micro_batches_of_rank(training.num_micro_batches, ranks, rank),
                     loss_scale.scale);
      all.loss += done.loss;
      all.tokens += done.tokens;
      training.parallel->finish();
      for (const auto& param : training.model->params())
        of_rank[param.get()].push_back(to_floats(training.parallel->grad(*param)));
    }
    double squares = 0.0;
    for (auto& [param, x] : of_rank) {
      // What is summed before it is coded: with experts on ep ranks their tokens.
      x = of_copies(x, is_stack(param) ? config.parallel.ep : 1);
      if (warm)
        for (size_t r = 1; r < x.size(); ++r)
          for (size_t i = 0; i < x[0].size(); ++i) x[0][i] += x[r][i];
      for (size_t r = 0; r < (warm ? 1 : x.size()); ++r)
        for (const float value : x[r]) squares += double{value} * double{value};
    }
    const double to_mean = 1.0 / (all.tokens * loss_scale.scale), norm = std::sqrt(squares) * to_mean;
    run.losses.push_back(all.loss / all.tokens);
    run.grad_norms.push_back(norm);
    if (!loss_scale.update(std::isfinite(norm))) {
      ++run.skipped;
      continue;
    }
    const double clip = warm ? std::min(1.0, config.optimizer.max_grad_norm / (norm + 1e-6)) : 1.0;
    const auto scale = static_cast<float>(to_mean * clip),
               lr = static_cast<float>(schedule_of(config).at(of_run));
    for (auto& [param, x] : of_rank) {
      State& state = states[param];
      state.m.resize(x[0].size(), 0.0f);
      state.v.resize(x[0].size(), 0.0f);
      if (step == kWarmup + 1) {
        const size_t numel = state.v.size() / static_cast<size_t>(matrices_of(*param).count);
        for (size_t first = 0; first < state.v.size(); first += numel) {  // of each expert
          double mean = 0.0;
          for (size_t i = first; i < first + numel; ++i)
            mean += double{state.v[i]} / static_cast<double>(numel);
          for (size_t i = first; i < first + numel; ++i)
            state.v[i] = std::max(state.v[i], static_cast<float>(0.01 * mean));
        }
      }
      if (!warm) {
        for (Floats& of : x)
          for (size_t i = 0; i < of.size(); ++i)
            of[i] = beta1 / static_cast<float>(x.size()) * state.m[i] + (1.0f - beta1) * scale * of[i];
        if (param->is_matrix() && x.size() > 1) {
          const int64_t pieces = is_stack(param) ? config.parallel.ep : 1;  // what a rank has of it
          const auto numel = param->numel() / pieces;
          Floats sum;
          for (int64_t p = 0; p < pieces; ++p) {
            std::vector<Floats> piece;
            for (const Floats& of : x)
              piece.emplace_back(of.begin() + p * numel, of.begin() + (p + 1) * numel);
            const Floats done = codes.sum(param->name() + std::to_string(p), piece, 1);
            sum.insert(sum.end(), done.begin(), done.end());
          }
          x[0] = sum;
        } else {
          for (size_t r = 1; r < x.size(); ++r)
            for (size_t i = 0; i < x[0].size(); ++i) x[0][i] += x[r][i];
        }
      }
      Floats master = to_floats(param->master());
      const double c1 = 1.0 - std::pow(config.optimizer.betas[0], static_cast<double>(step));
      const double c2 = 1.0 - std::pow(config.optimizer.betas[1], static_cast<double>(warm ? step : kWarmup));
      for (size_t i = 0; i < master.size(); ++i) {
        if (warm) {
          const float g = x[0][i] * scale;
          state.m[i] = beta1 * state.m[i] + (1.0f - beta1) * g;
          state.v[i] = beta2 * state.v[i] + (1.0f - beta2) * g * g;
        } else {
          state.m[i] = state.v[i] > 0.0f ? x[0][i] : 0.0f;
        }
        if (param->is_matrix())
          master[i] -= lr * static_cast<float>(config.optimizer.weight_decay) * master[i];
        master[i] -= lr * static_cast<float>(double{state.m[i]} / c1 /
                                             (std::sqrt(double{state.v[i]} / c2) + config.optimizer.eps));
      }
      const_cast<Param*>(param)->store(master.data());
    }
    ++step;
  }
  for (const auto& param : training.model->params()) {
    const Floats values = to_floats(param->master());
    run.weights.insert(run.weights.end(), values.begin(), values.end());
  }
  return run;
}

double weights_gap(const VerifyRun& got, const OneBitDefinition& expected, const Config& config) {
  const auto model = make_model(config.model);
  double gap = 0.0, norm = 0.0;
  auto next = expected.weights.begin();
  for (const auto& param : model->params())
    for (const float value : got.weights.at("model." + param->name())) {
      gap += std::pow(double{value} - double{*next}, 2);
      norm += std::pow(double{*next++}, 2);
    }
  return std::sqrt(gap / norm);
}

OneBitDefinition expect_defined_onebit(const Config& config, int ranks, double tolerance) {
  const Outcome got = run(config, ranks);
  OneBitDefinition expected = define_onebit(config, ranks);
  const std::string what = config.model.model_type + ", " + std::to_string(ranks) + " ranks";
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const double norm = expected.grad_norms[i];
    EXPECT_NEAR(got.steps[i].loss, expected.losses[i], tolerance * expected.losses[i]) << what << i;
    EXPECT_EQ(std::isfinite(got.steps[i].grad_norm), std::isfinite(norm)) << what << i;
    if (std::isfinite(norm)) {
      EXPECT_NEAR(got.steps[i].grad_norm, norm, 10 * tolerance * norm) << what << i;
    }
  }
  double gap = 0.0, norm = 0.0;
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    gap += std::pow(double{got.weights[i]} - double{expected.weights[i]}, 2);
    norm += std::pow(double{expected.weights[i]}, 2);
  }
  EXPECT_LE(std::sqrt(gap / norm), tolerance) << what;
  return expected;
}

TEST(OneBitAdam, TrainsAsItsDefinition) {
  for (const char* family : {"llama", "gpt2"})
    for (const int ranks : {2, 3}) expect_defined_onebit(onebit(family), ranks, 1e-5);
}

// f16: steps that overflow are skipped, in the warm-up and after it, and change nothing.
TEST(OneBitAdam, LossScalesMakeNoDifference) {
  Config config = onebit("llama");
  config.precision.compute = "f16";
  config.precision.loss_scale = 4194304;
  config.precision.loss_scale_window = 2;
  config.train.steps = 16;
  EXPECT_GT(expect_defined_onebit(config, 2, 1e-3).skipped, 1);
}

// With experts on other ranks. Gradients that differ by rounding have a few other signs.
TEST(OneBitAdam, OfExpertsTrainsAsItsDefinition) {
  for (const auto& [dp, ep] : {std::pair{4, 2}, {2, 2}}) {  // of two ranks none has another's experts
    Config config = onebit("moe");
    config.model.num_experts = 8;
    config.optimizer.lr = 1e-3;
    config.train.global_batch_size = 8;  // four micro-batches
    config.parallel.dp = dp;
    config.parallel.ep = ep;
    const VerifyRun got = run_layout(config);
    const OneBitDefinition expected = define_onebit(config, dp);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-4 * expected.losses[i]) << "step " << i + 1;
      EXPECT_NEAR(got.grad_norms[i], expected.grad_norms[i], 1e-3 * expected.grad_norms[i])
          << "step " << i + 1;
    }
    const double gap = weights_gap(got, expected, config);
    EXPECT_LE(gap, 1e-4) << dp;
    config.parallel.ep = 1;  // every rank has all experts and sends their signs
    EXPECT_GT(weights_gap(got, define_onebit(config, dp), config), 5 * gap) << dp;
  }
}

// f16 with state that is shared out: the same steps are skipped, and the bits are those of whole state.
TEST(OneBitAdam, LossScalesMakeNoDifferenceToSharedState) {
  Config config = onebit("gpt2");
  config.precision.compute = "f16";
  config.precision.loss_scale = 4194304;
  config.precision.loss_scale_window = 2;
  config.train.steps = 16;
  const Outcome whole = run(config, 3);
  config.parallel.zero_stage = 1;
  EXPECT_TRUE(same_bits(run(config, 3), whole));
  const auto skipped = std::count_if(whole.steps.begin(), whole.steps.end(),
                                     [](const StepResult& step) { return !step.applied; });
  EXPECT_GT(skipped, 1);
}

// Checkpoints are the same bytes whether state is shared out (ZeRO 1) or not, and each goes on from the other's.
TEST(OneBitAdam, ResumesToTheSameBitsAcrossTheEndOfItsWarmup) {
  const Config config = onebit("gpt2");
  const std::string folder = temporary_path("onebit");
  const auto digest = [&] { return Checkpoint::open(system_env(), folder + "/8").digest(); };
  const auto whole = train_chain(config, {{3, 8}}, folder);
  const std::string expected = digest();
  for (const auto& [first, other] : {std::pair(0, 0), {1, 1}, {0, 1}, {1, 0}}) {
    const auto parts =
        train_chain(config, {{3, 2, first}, {3, 1, other}, {3, 2, first}, {3, 3, other}}, folder);
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(bits(whole[i]), bits(parts[i])) << "step " << i + 1 << ", zero " << first << other;
    EXPECT_EQ(digest(), expected) << first << other;
  }
}

// After the warm-up only momenta cross the wire: signs of matrices both ways, and floats of vectors.
TEST(OneBitAdam, SendsTheDocumentedBytes) {
  constexpr int kRanks = 3;
  const Config config = onebit("llama");
  std::mutex mutex;
  train_chain(config, {{kRanks, 8}}, temporary_path("onebit_bytes"), [&](Training& training, Group& all) {
    int64_t blocks = 0;
    for (const auto& param : training.model->params())
      if (param->is_matrix()) blocks += (param->numel() + 255) / 256;
    const int64_t row = (blocks + kRanks - 1) / kRanks * 36;
    const std::lock_guard lock(mutex);
    for (const Collective way : {Collective::all_to_all, Collective::all_gather}) {
      EXPECT_EQ(all.traffic().of(way).bytes, (8 - kWarmup) * (kRanks - 1) * row);
      EXPECT_EQ(all.traffic().of(way).calls, 8 - kWarmup);
    }
  });
}

TEST(OneBitAdam, LossFallsAfterTheWarmup) {
  Config config = onebit("llama");
  config.train.steps = 60;
  config.compression.warmup_steps = 12;
  const Outcome outcome = run(config, 2);
  EXPECT_LT(outcome.steps.back().loss, 0.5 * outcome.steps[11].loss);
}

}  // namespace
}  // namespace athanor::tests::onebit_adam_test
