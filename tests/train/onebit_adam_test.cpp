// 1-bit Adam against its definition: virtual ranks one after the other, the optimizer in plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/engine/compression_state.h"
#include "support/compression_definition.h"
#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/role_of.h"
#include "train/virtual_ranks.h"

namespace athanor::tests::onebit_adam_test {
namespace {

struct State {
  Floats m, v;
};

// In its ranks of dp; norms of steps that are skipped are none.
DefinedRun define_onebit(const Config& config) {
  const auto ranks = static_cast<int>(config.parallel.dp);
  const int64_t warmup = config.compression.warmup_steps;
  Engine engine;
  const auto world = make_single_world();
  Config alone = config;
  alone.parallel.dp = alone.parallel.ep = 1;
  TrainingRank built(alone, *world, engine.arena);
  Training& training = built.training;
  training.allocate();
  training.model->initialize(config.train.seed);
  CompressionDefinition codes("onebit", true);
  std::map<const Param*, State> states;
  const auto beta1 = static_cast<float>(config.optimizer.betas[0]),
             beta2 = static_cast<float>(config.optimizer.betas[1]);
  DefinedRun run;
  const auto is_stack = [](const Param* param) { return matrices_of(*param).count > 1; };
  LossScale loss_scale = first_state(config).loss_scale;
  for (int64_t of_run = 1, step = 1; of_run <= config.train.steps; ++of_run) {
    const bool warm = step <= warmup;
    std::map<const Param*, std::vector<Floats>> of_rank;
    Accumulated all;
    for (int rank = 0; rank < ranks; ++rank) {
      const Accumulated done =
          accumulate(training, config, of_run, micro_batches_of_rank(training.num_micro_batches, ranks, rank),
                     loss_scale.scale);
      all.loss += done.loss;
      all.tokens += done.tokens;
      parallel_of(training).finish();
      for (const auto& param : training.model->params())
        of_rank[param.get()].push_back(to_floats(parallel_of(training).grad(*param)));
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
    if (!loss_scale.update(std::isfinite(norm))) continue;
    const double clip = warm ? std::min(1.0, config.optimizer.max_grad_norm / (norm + 1e-6)) : 1.0;
    const auto scale = static_cast<float>(to_mean * clip),
               lr = static_cast<float>(schedule_of(config).at(of_run));
    for (auto& [param, x] : of_rank) {
      State& state = states[param];
      state.m.resize(x[0].size(), 0.0f);
      state.v.resize(x[0].size(), 0.0f);
      if (step == warmup + 1) {
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
      const double c2 = 1.0 - std::pow(config.optimizer.betas[1], static_cast<double>(warm ? step : warmup));
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
      const_cast<Param*>(param)->store_whole(master.data());
    }
    ++step;
  }
  run.weights = weights_of(*training.model);
  return run;
}

void expect_defined_onebit(const Config& config, double tolerance) {
  expect_defined(run_layout(config), define_onebit(config), {tolerance, 10 * tolerance, tolerance},
                 fmt::format("{}, {} ranks", config.model.model_type, config.parallel.dp));
}

TEST(OneBitAdam, TrainsAsItsDefinition) {
  for (const char* family : {"llama", "gpt2"})
    for (const int ranks : {2, 3}) expect_defined_onebit(in_axes(onebit(family), {.dp = ranks}), 1e-5);
}

int64_t skipped(const std::vector<double>& norms) {
  return std::count_if(norms.begin(), norms.end(), [](double norm) { return !std::isfinite(norm); });
}

// f16: steps that overflow are skipped, in the warm-up and after it, and change nothing.
Config onebit_in_f16(const std::string& family) {
  Config config = onebit(family);
  config.precision.compute = "f16";
  config.precision.loss_scale = 4194304;
  config.precision.loss_scale_window = 2;
  config.train.steps = 16;
  return config;
}

TEST(OneBitAdam, LossScalesMakeNoDifference) {
  const Config config = in_axes(onebit_in_f16("llama"), {.dp = 2});
  expect_defined_onebit(config, 1e-3);
  EXPECT_GT(skipped(define_onebit(config).grad_norms), 1);
}

// With experts on other ranks. Gradients that differ by rounding have a few other signs.
TEST(OneBitAdam, OfExpertsTrainsAsItsDefinition) {
  for (const int dp : {4, 2}) {  // of two ranks none has another's experts
    Config config = eight_experts(onebit("moe"));
    config.optimizer.lr = 1e-3;
    config.train.global_batch_size = 8;  // four micro-batches
    config = in_axes(config, {.dp = dp, .ep = 2});
    const VerifyRun got = run_layout(config);
    const DefinedRun expected = define_onebit(config);
    expect_defined(got, expected, {1e-4, 1e-3, 1e-4}, std::to_string(dp));
    config.parallel.ep = 1;  // every rank has all experts and sends their signs
    EXPECT_GT(weights_gap(got.weights, define_onebit(config).weights),
              5 * weights_gap(got.weights, expected.weights))
        << dp;
  }
}

// f16 with state that is shared out: the same steps are skipped, and the bits are those of whole state.
TEST(OneBitAdam, LossScalesMakeNoDifferenceToSharedState) {
  const Config config = onebit_in_f16("gpt2");
  const VerifyRun whole = run_layout(in_axes(config, {.dp = 3}));
  EXPECT_TRUE(compare(run_layout(in_axes(config, {.dp = 3, .zero = 1})), whole).bitwise);
  EXPECT_GT(skipped(whole.grad_norms), 1);
}

// After the warm-up only momenta cross the wire: signs of matrices both ways, and floats of vectors.
TEST(OneBitAdam, SendsTheDocumentedBytes) {
  constexpr int kRanks = 3;
  const Config config = in_axes(onebit("llama"), {.dp = kRanks});
  const int64_t steps = config.train.steps - config.compression.warmup_steps;
  run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
               int64_t blocks = 0;
               for (const auto& param : training.model->params())
                 if (param->is_matrix()) blocks += (param->numel() + 255) / 256;
               const int64_t row = (blocks + kRanks - 1) / kRanks * 36;
               for (const Collective way : {Collective::all_to_all, Collective::all_gather}) {
                 EXPECT_EQ(world.all().traffic().of(way).bytes, steps * (kRanks - 1) * row);
                 EXPECT_EQ(world.all().traffic().of(way).calls, steps);
               }
             }});
}

TEST(OneBitAdam, LossFallsAfterTheWarmup) {
  Config config = in_axes(onebit("llama"), {.dp = 2});
  config.train.steps = 60;
  config.compression.warmup_steps = 12;
  const VerifyRun run = run_layout(config);
  EXPECT_LT(run.losses.back(), 0.5 * run.losses[11]);
}

}  // namespace
}  // namespace athanor::tests::onebit_adam_test
