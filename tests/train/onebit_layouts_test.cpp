// 1-bit Adam where its state is shared out: what it sends and what it keeps. That ZeRO 1 has the bits of whole state in every
// layout is rows of train/layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "athanor/engine/memory_plan.h"
#include "athanor/kernels/elementwise.h"
#include "train/compressed_training.h"
#include "train/layouts/layout_case.h"
#include "train/saved_run.h"

namespace athanor::tests::onebit_layouts_test {
namespace {

// Of a stack's matrices those whose elements are all zero.
std::vector<bool> zero_matrices(const std::vector<float>& values, int64_t count) {
  std::vector<bool> zero;
  const auto numel = std::ssize(values) / count;
  for (auto first = values.begin(); first != values.end(); first += numel)
    zero.push_back(std::all_of(first, first + numel, [](float value) { return value == 0.0f; }));
  return zero;
}

// Their variance says nothing of how large a step may be.
TEST(OneBitLayouts, ExpertsWithoutATokenInTheWarmupStay) {
  Config config = onebit_blocks("moe");
  config.model.num_experts = 64;
  config.train.global_batch_size = 4;
  config.train.steps = 12;
  Config plain = in_axes(config, {.dp = 2});
  plain.compression.method = "none";
  const VerifyRun run = run_layout(in_axes(config, {.dp = 2, .zero = 1})), moved = run_layout(plain);
  EXPECT_TRUE(compare(run, run_layout(in_axes(config, {.dp = 2}))).bitwise);
  int stay = 0;
  for (const auto& [name, values] : run.state) {
    if (!name.starts_with("adam.v.") || name.find(".experts.") == std::string::npos) continue;
    const auto& momenta = run.state.at("adam.m." + name.substr(7));
    const std::vector<bool> unseen = zero_matrices(values, 64), still = zero_matrices(momenta, 64),
                            unseen_ever = zero_matrices(moved.state.at(name), 64);
    for (size_t expert = 0; expert < unseen.size(); ++expert) {
      if (!unseen[expert]) continue;
      EXPECT_TRUE(still[expert]) << name << " " << expert;
      stay += unseen_ever[expert] ? 0 : 1;
    }
  }
  EXPECT_GT(stay, 0) << "no expert has its first token after the warm-up";
}

// Where the warm-up was not 1-bit Adam's own, elements may have no variance in a matrix that has some: positions behind
// the end of the sequences. They get the least.
TEST(OneBitLayouts, GoesOnFromPlainAdamBehindItsWarmup) {
  Config config = in_axes(onebit_blocks("gpt2"), {.dp = 2}), plain = config;
  plain.compression.method = "none";
  const SavedRun saved = save_after(plain, kPlainSteps + 1);
  const VerifyRun whole = resume(config, saved);
  config.parallel.zero_stage = 1;
  const VerifyRun shared = resume(config, saved);
  EXPECT_EQ(shared.weights, whole.weights);
  EXPECT_EQ(shared.state, whole.state);
  EXPECT_NEAR(whole.losses.back(), run_layout(plain).losses.back(), 0.05 * whole.losses.back());
  const auto has_zeros = [](const WholeTensors& tensors) {
    const auto& values = tensors.at("adam.v.positions.weight");
    return std::find(values.begin(), values.end(), 0.0f) != values.end();
  };
  EXPECT_TRUE(has_zeros(run_layout(plain).state));
  EXPECT_FALSE(has_zeros(whole.state));
}

// Of rank 0.
Traffic traffic_of(const Config& config, int64_t steps) {
  Traffic traffic;
  const auto note = [&](Training& training, TrainState&, World& world) {
    finish_gathers(training, config);
    if (world.rank() == 0) traffic = world.all().traffic();
  };
  run_layout(config, {.end = note}, steps);
  return traffic;
}

// The bytes of rank 0 of so many in an all-reduce.
int64_t all_reduced(int64_t count, int ranks, int64_t of_each) {
  const int64_t part = (count + ranks - 1) / ranks;
  return of_each * (count - part + (ranks - 1) * part);
}

TEST(OneBitLayouts, SharedStateSendsTheDocumentedBytes) {
  constexpr int kRanks = 3;
  const Config config = in_axes(onebit_blocks("gpt2"), {.dp = kRanks, .zero = 1});
  int64_t momenta = 0, variances = 0, codes = 0, vectors = 0, values = 0, params = 0;
  run_layout(config, {.end = [&](Training& training, TrainState&, World& world) {
               if (world.rank() > 0) return;
               int64_t blocks = 0, floats = 0;
               for (const auto& param : training.model->params()) {
                 momenta += (kRanks - 1) * 4 * param->range().count();
                 variances += all_reduced((param->numel() + 255) / 256, kRanks, 8);
                 (param->is_matrix() ? blocks : floats) +=
                     param->is_matrix() ? (param->numel() + 255) / 256 : param->numel();
                 ++params;
               }
               codes = (kRanks - 1) * ((blocks + kRanks - 1) / kRanks) * 36;
               vectors = all_reduced(floats, kRanks, 4);
               const Buckets buckets(training.model->weights(),
                                     {.rows = kRanks, .bucket_bytes = config.parallel.bucket_bytes});
               for (size_t b = 0; b < buckets.list.size(); ++b)
                 if (!buckets.params(b).empty()) values += (kRanks - 1) * 4 * buckets.list[b].layout.count;
             }});
  std::map<int64_t, Traffic> after;
  for (int64_t step = kPlainSteps - 1; step <= kPlainSteps + 2; ++step)
    after[step] = traffic_of(config, step);
  const auto of_step = [&](Collective collective, int64_t step) {
    return after.at(step).of(collective).bytes - after.at(step - 1).of(collective).bytes;
  };
  const int64_t reduced = vectors + all_reduced(params, kRanks, 8) +
                          all_reduced(static_cast<int64_t>(MicroBatchLosses::count(8, 2)), kRanks, 8);
  EXPECT_EQ(of_step(Collective::broadcast, kPlainSteps), 0);
  EXPECT_EQ(of_step(Collective::broadcast, kPlainSteps + 1), momenta);
  EXPECT_EQ(of_step(Collective::broadcast, kPlainSteps + 2), 0);
  EXPECT_EQ(of_step(Collective::all_reduce, kPlainSteps + 1), reduced + variances);
  EXPECT_EQ(of_step(Collective::all_reduce, kPlainSteps + 2), reduced);
  for (const int64_t step : {kPlainSteps + 1, kPlainSteps + 2}) {
    EXPECT_EQ(of_step(Collective::all_to_all, step), codes);
    EXPECT_EQ(of_step(Collective::all_gather, step), codes + values);
    EXPECT_EQ(of_step(Collective::reduce_scatter, step), 0);
  }
}

// docs/compression.md: bytes a parameter beside codes and activations.
TEST(OneBitLayouts, TheStateIsWhatTheStageSays) {
  for (const int zero : {0, 1}) {
    Config config = in_axes(onebit_blocks("llama"), {.dp = 8, .zero = zero});
    config.precision.compute = "bf16";
    config.model.hidden_size = 256;
    config.model.head_dim = 64;
    config.model.intermediate_size = 688;
    config.model.vocab_size = 2000;
    config.parallel.bucket_bytes = 16 << 20;
    const auto psi = static_cast<double>(make_model(config.model)->num_params());
    const MemoryPlan plan = plan_memory({config, 2, 0, 8});
    const auto expect_bytes = [&](Category category, double bytes) {
      EXPECT_NEAR(static_cast<double>(plan.usage.peak[static_cast<size_t>(category)]), bytes * psi,
                  0.03 * bytes * psi)
          << name_of(category) << ", zero " << config.parallel.zero_stage;
    };
    const double n = 8;
    expect_bytes(Category::parameters, 2);
    expect_bytes(Category::gradients, 4);
    expect_bytes(Category::optimizer, zero == 0 ? 16 + 4 / n : 8 + 12 / n);
  }
}

}  // namespace
}  // namespace athanor::tests::onebit_layouts_test
