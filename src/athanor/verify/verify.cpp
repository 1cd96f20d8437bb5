#include "athanor/verify/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "athanor/base/thread_pool.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/engine/param_slices.h"
#include "athanor/kernels/table.h"
#include "athanor/run/server_run.h"

namespace athanor::verify {
namespace {

constexpr double kZeroGradient = 1e-7;  // of the largest gradient's norm

struct Gathered {
  Gathering first_weights, gradients, weights, state;
};

// One rank of a layout: runs all steps and hands its tensors to `gathered`.
class VerifiedRank {
 public:
  VerifiedRank(const Config& config, int64_t steps, World& world, const LayoutHooks& hooks,
               Gathered& gathered)
      : config_(every_step_commits(config)),
        steps_(steps),
        world_(world),
        hooks_(hooks),
        gathered_(gathered),
        queue_(
            make_cpu_queue(&pool_, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa))) {
    layout_ = make_layout(config_, {.world_size = world.size()});
    if (hooks_.layout) hooks_.layout(layout_);
    groups_.emplace(layout_, world);
    if (hooks_.groups) hooks_.groups(*groups_);
  }

  void run(int64_t num_channels, const ReadMicroBatch& read, VerifyRun& run) {
    Training training(config_, layout_, *groups_, arena_,
                      {.num_channels = num_channels, .sharding = hooks_.sharding});
    if (hooks_.declared) hooks_.declared(training);
    training.allocate();
    training.initialize(config_.train.seed);
    own_ = training.prefix();
    for (const NamedTensor& part : training.tensors())
      if (is_weight(part)) gathered_.first_weights.put(part);
    TrainState state = first_state(config_);
    training.role->publish(state);
    if (hooks_.begin) hooks_.begin(training, state, world_);
    if (training.role->serves())
      serve(training, state);
    else
      train(training, state, read, run);
    training.role->settle();
    if (hooks_.end) hooks_.end(training, state, world_);
    for (const NamedTensor& part : training.tensors())
      (is_weight(part) ? gathered_.weights : gathered_.state).put(part);
  }

 private:
  static Config every_step_commits(Config config) {
    config.checkpoint.every_steps = 1;  // every step ends with a global barrier of the servers
    return config;
  }
  bool is_weight(const NamedTensor& part) const {
    return part.name.starts_with("model.") || part.name.starts_with(own_ + "model.");
  }

  void train(Training& training, TrainState& state, const ReadMicroBatch& read, VerifyRun& run) {
    Batch batch;
    for (int64_t step = state.step + 1; step <= steps_; ++step) {
      const std::vector<int64_t> micro_batches = training.own_micro_batches();
      auto micro_batch = micro_batches.begin();
      const StepResult done = training.role->step(state, [&]() -> const Batch& {
        read(step, *micro_batch++, batch);
        return batch;
      });
      if (world_.rank() == 0) {
        run.losses.push_back(done.loss);
        run.grad_norms.push_back(done.grad_norm);
        if (done.experts) run.experts.push_back(*done.experts);
      }
      if (step == 1) gather_gradients(training);
      if (hooks_.after_step) hooks_.after_step(training, state, world_);
    }
  }

  void serve(Training& training, TrainState& state) {
    serve_steps(*training.role, steps_, state, [&](bool) {
      if (state.step == 1) gather_gradients(training);
    });
  }

  void gather_gradients(const Training& training) {
    std::vector<NamedTensor> parts;
    for (const auto& param : training.model->params()) {
      if (param->is_state()) continue;
      if (const Tensor* grad = training.role->grad(*param))
        add_slices(parts, own_ + "gradient", *param, param->range(), {*grad});
    }
    for (const NamedTensor& part : parts) gathered_.gradients.put(part);
  }

  const Config config_;
  const int64_t steps_;
  World& world_;
  const LayoutHooks& hooks_;
  Gathered& gathered_;
  ThreadPool pool_{1};
  std::unique_ptr<Queue> queue_;
  Arena arena_{*queue_, 0, [this](size_t bytes) { return world_.allocate(bytes); }};
  Layout layout_;
  std::optional<Groups> groups_;
  std::string own_;  // prefix of the names of this rank's replica group
};

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

// One token routed to another expert changes the counts of two experts by one.
int64_t flips_of(const ExpertLoad& got, const ExpertLoad& expected) {
  int64_t moved = 0;
  for (size_t layer = 0; layer < expected.chosen.size(); ++layer)
    for (size_t e = 0; e < expected.chosen[layer].size(); ++e)
      moved += std::abs(got.chosen.at(layer).at(e) - expected.chosen[layer][e]);
  return moved / 2;
}

}  // namespace

VerifyRun run_layout(const Config& config, std::span<const Channel> channels, int64_t steps, int ranks) {
  const BatchReader reader(channels,
                           make_sampler(channels, config.train.seed, config.train.global_batch_size),
                           config.train.micro_batch_size);
  return run_layout(
      config, std::ssize(channels),
      [&](int64_t step, int64_t micro_batch, Batch& batch) { reader.read(step, micro_batch, batch); }, steps,
      ranks);
}

VerifyRun run_layout(const Config& config, int64_t num_channels, const ReadMicroBatch& read, int64_t steps,
                     int ranks, const LayoutHooks& hooks) {
  VerifyRun run;
  Gathered gathered;
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    VerifiedRank(config, steps, world, hooks, gathered).run(num_channels, read, run);
  });
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
    const size_t kind = name.find("gradient.");  // after the prefix of the replica group
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

}  // namespace athanor::verify
