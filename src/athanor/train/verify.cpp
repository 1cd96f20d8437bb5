#include "athanor/train/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "athanor/base/thread_pool.h"
#include "athanor/comm/thread.h"
#include "athanor/kernels/table.h"
#include "athanor/train/layout.h"
#include "athanor/train/param_slices.h"

namespace athanor {
namespace {

constexpr double kZeroGradient = 1e-7;  // of the largest gradient's norm

struct Gathered {
  Gathering first_weights, gradients, weights, state;
};

void run_rank(const Config& config, int64_t num_channels, const ReadGrain& read, int64_t steps, World& world,
              const LayoutHooks& hooks, Gathered& gathered, VerifyRun& run) {
  ThreadPool pool(1);
  const auto queue =
      make_cpu_queue(&pool, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
  Arena arena(*queue);
  Mesh mesh(mesh_shape(config, world.size()), world);
  Group& data = hooks.data ? hooks.data(mesh) : data_group(mesh);
  Training training(config, num_channels, data, arena, nullptr, nullptr);
  if (hooks.lay_out)
    hooks.lay_out(training, mesh);
  else
    training.lay_out(mesh);
  training.allocate();
  training.model->initialize(config.train.seed);
  if (training.outer) training.outer->begin();
  const std::string own = island_prefix(training.outer.get());
  const auto weights = [&own](const NamedTensor& part) {
    return part.name.starts_with("model.") || part.name.starts_with(own + "model.");
  };
  for (const NamedTensor& part : training.tensors())
    if (weights(part)) gathered.first_weights.put(part);
  TrainState state = first_state(config);
  if (hooks.begin) hooks.begin(training, state, world);
  Batch batch;
  for (int64_t step = state.step + 1; step <= steps; ++step) {
    const std::vector<int64_t> grains = training.parallel->grains_of_step(training.num_grains);
    auto grain = grains.begin();
    const StepResult done = training.runner->run(state, [&]() -> const Batch& {
      read(step, *grain++, batch);
      return batch;
    });
    if (world.rank() == 0) {
      run.losses.push_back(done.loss);
      run.grad_norms.push_back(done.grad_norm);
      if (done.experts) run.experts.push_back(*done.experts);
    }
    if (step > 1) continue;
    std::vector<NamedTensor> parts;
    for (const auto& param : training.model->params())
      if (!param->is_state()) add_slices(parts, own + "gradient", *param, {training.parallel->grad(*param)});
    for (const NamedTensor& part : parts) gathered.gradients.put(part);
  }
  if (hooks.end) hooks.end(training, state, world);
  for (const NamedTensor& part : training.tensors())
    (weights(part) ? gathered.weights : gathered.state).put(part);
}

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

double gap_of(const std::vector<float>& got, const std::vector<float>& expected) {
  check(got.size() == expected.size(), "verify: got {} values, expected {}", got.size(), expected.size());
  double sum = 0.0;
  for (size_t i = 0; i < got.size(); ++i) sum += std::pow(double{got[i]} - double{expected[i]}, 2);
  return std::sqrt(sum);
}

template <typename Bits, typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y); });
}
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return same_bits<uint64_t>(a, b);
}
bool same_bits(const WholeTensors& a, const WholeTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits<uint32_t>(x.second, y.second);
  });
}

// A choice that fell otherwise moves the counts of two experts by one.
int64_t flips_of(const ExpertLoad& got, const ExpertLoad& expected) {
  int64_t moved = 0;
  for (size_t layer = 0; layer < expected.chosen.size(); ++layer)
    for (size_t e = 0; e < expected.chosen[layer].size(); ++e)
      moved += std::abs(got.chosen.at(layer).at(e) - expected.chosen[layer][e]);
  return moved / 2;
}

}  // namespace

Config one_process(Config config) {
  config.parallel.dp = config.parallel.sync_every > 0 ? config.parallel.dp / config.parallel.sync_group : 1;
  config.parallel.sync_group = std::min<int64_t>(config.parallel.sync_group, 1);
  config.parallel.tp = config.parallel.cp = 1;
  config.parallel.pp = config.parallel.ep = 1;
  config.parallel.stage_layers.clear();
  config.parallel.zero = config.parallel.zero_shard = 0;
  config.parallel.balance = "even";
  config.parallel.sp = false;
  config.parallel.recompute = "none";
  config.offload = {.path = config.offload.path};
  return config;
}

VerifyRun run_layout(const Config& config, std::span<const Channel> channels, int64_t steps, int ranks) {
  const BatchReader reader(channels, make_sampler(channels, config.train.seed, config.train.global_batch),
                           config.train.micro_batch);
  return run_layout(
      config, std::ssize(channels),
      [&](int64_t step, int64_t grain, Batch& batch) { reader.read(step, grain, batch); }, steps, ranks);
}

VerifyRun run_layout(const Config& config, int64_t num_channels, const ReadGrain& read, int64_t steps,
                     int ranks, const LayoutHooks& hooks) {
  VerifyRun run;
  Gathered gathered;
  run_ranks(make_thread_worlds(ranks),
            [&](World& world) { run_rank(config, num_channels, read, steps, world, hooks, gathered, run); });
  run.first_weights = gathered.first_weights.whole();
  run.gradients = gathered.gradients.whole();
  run.weights = gathered.weights.whole();
  run.state = gathered.state.whole();
  return run;
}

void Largest::note(double difference, const std::string& place) {
  if (difference <= value) return;
  value = std::isnan(difference) ? HUGE_VAL : difference;
  where = place;
}

double LayoutDifference::worst() const {
  return std::max({loss.value, grad_norm.value, gradient.value, weight.value});
}

LayoutDifference compare(const VerifyRun& got, const VerifyRun& expected) {
  LayoutDifference found;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const std::string step = fmt::format("step {}", i + 1);
    found.loss.note(std::abs(got.losses.at(i) / expected.losses[i] - 1.0), step);
    found.grad_norm.note(std::abs(got.grad_norms.at(i) / expected.grad_norms[i] - 1.0), step);
  }
  double largest = 0.0;
  for (const auto& [name, values] : expected.gradients) largest = std::max(largest, norm_of(values));
  for (const auto& [name, values] : expected.gradients) {
    const size_t kind = name.find("gradient.");  // behind the island's name
    const std::string param = name.substr(kind + std::string("gradient.").size());
    const std::string weight = name.substr(0, kind) + "model." + param;
    const double norm = norm_of(values), gap = gap_of(got.gradients.at(name), values);
    if (!(gap <= kZeroGradient * largest)) found.gradient.note(gap / norm, param);
    if (norm <= kZeroGradient * largest) continue;
    const auto& weights = expected.weights.at(weight);
    const double moved = gap_of(got.weights.at(weight), weights);
    if (moved > 0.0) found.weight.note(moved / norm_of(weights), param);
  }
  for (size_t i = 0; i < expected.experts.size(); ++i)
    found.routing_flips += flips_of(got.experts.at(i), expected.experts[i]);
  found.bitwise = same_bits(got.losses, expected.losses) && same_bits(got.grad_norms, expected.grad_norms) &&
                  same_bits(got.gradients, expected.gradients) && same_bits(got.weights, expected.weights) &&
                  same_bits(got.state, expected.state);
  return found;
}

}  // namespace athanor
