// A training in a layout of dp x tp ranks as threads, put together to whole tensors again: what tests hold
// against the same training in one process.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "train/small_training.h"

namespace athanor {

struct Layout {
  int dp = 1, tp = 1;
  bool sp = false;
};

using WholeTensors = std::map<std::string, std::vector<float>>;

struct LayoutRun {
  std::vector<double> losses, grad_norms;
  WholeTensors first_weights, first_gradients, last_weights;
  std::string fault;  // of the ranks' boxes: copies that differ, a hole
};

// Collects the boxes of the ranks. Copies of a box must agree to the bit.
class Gathering {
 public:
  void put(const Param& param, const std::vector<float>& box) {
    const std::lock_guard lock(mutex_);
    Parts& parts = tensors_[param.name()];
    parts.values.resize(static_cast<size_t>(param.whole_shape().numel()));
    parts.is_set.resize(parts.values.size());
    BoxRuns(param.whole_shape(), param.box())
        .walk(0, static_cast<int64_t>(box.size()), [&](int64_t in_box, int64_t in_whole, int64_t count) {
          for (int64_t i = 0; i < count; ++i) {
            const auto at = static_cast<size_t>(in_whole + i);
            const float value = box[static_cast<size_t>(in_box + i)];
            if (parts.is_set[at] && std::memcmp(&parts.values[at], &value, sizeof(value)) != 0)
              fault_ = param.name() + ": copies differ";
            parts.values[at] = value;
            parts.is_set[at] = true;
          }
        });
  }
  WholeTensors whole(std::string& fault) const {
    WholeTensors all;
    if (!fault_.empty()) fault = fault_;
    for (const auto& [name, parts] : tensors_) {
      if (!std::all_of(parts.is_set.begin(), parts.is_set.end(), [](bool is_set) { return is_set; }))
        fault = name + ": a hole";
      all[name] = parts.values;
    }
    return all;
  }

 private:
  struct Parts {
    std::vector<float> values;
    std::vector<bool> is_set;
  };
  std::mutex mutex_;
  std::map<std::string, Parts> tensors_;
  std::string fault_;
};

struct LayoutHooks {
  std::function<void(Sharding&)> change_table = {};                  // faults are planted here
  std::function<void(Training&, Group& tensor_group)> prepare = {};  // before memory is allocated
  std::function<void(Training&, TrainState&, Group&world)> begin = {}, end = {};
};

inline LayoutRun run_layout(const Config& config, const Layout& layout, const LayoutHooks& hooks = {}) {
  GroupOptions options;
  options.timeout_ms = 60000;
  const auto world = make_thread_groups(layout.dp * layout.tp, options);
  std::vector<std::vector<std::unique_ptr<Group>>> data_groups, tensor_groups;
  for (int t = 0; t < layout.tp; ++t) data_groups.push_back(make_thread_groups(layout.dp, options));
  for (int d = 0; d < layout.dp; ++d) tensor_groups.push_back(make_thread_groups(layout.tp, options));
  LayoutRun result;
  Gathering first_weights, first_gradients, last_weights;
  const auto gather_weights = [](Gathering& gathering, const Training& training) {
    for (const auto& param : training.model->params()) {
      std::vector<float> values(static_cast<size_t>(param->box().extent.numel()));
      param->load(values.data());
      gathering.put(*param, values);
    }
  };
  run_ranks(world, [&](Group& own) {
    const auto d = static_cast<size_t>(own.rank() / layout.tp),
               t = static_cast<size_t>(own.rank() % layout.tp);
    Group& data_group = *data_groups[t][d];
    Group& tensor_group = *tensor_groups[d][t];
    try {
      Engine engine;
      Training training(config, 2, data_group, engine.arena, nullptr, nullptr);
      Sharding table = sharding_of(config.model, layout.sp);
      if (hooks.change_table) hooks.change_table(table);
      if (layout.tp > 1) training.split(table, tensor_group);
      if (hooks.prepare) hooks.prepare(training, tensor_group);
      training.allocate();
      training.model->initialize(config.train.seed);
      gather_weights(first_weights, training);
      TrainState state = first_state(config);
      if (hooks.begin) hooks.begin(training, state, own);
      Batch batch;
      for (int64_t step = state.step + 1; step <= config.train.steps; ++step) {
        const std::vector<int64_t> grains = training.parallel->grains_of_step(training.num_grains);
        auto grain = grains.begin();
        const StepResult done = training.runner->run(state, [&]() -> const Batch& {
          batch = make_batch(config, step, *grain++);
          return batch;
        });
        if (own.rank() == 0) {
          result.losses.push_back(done.loss);
          result.grad_norms.push_back(done.grad_norm);
        }
        if (step == 1)
          for (const auto& param : training.model->params())
            if (!param->is_state())
              first_gradients.put(*param, to_floats(param->unpadded(training.parallel->grad(*param))));
      }
      if (hooks.end) hooks.end(training, state, own);
      gather_weights(last_weights, training);
    } catch (const std::exception& error) {  // those who wait for this rank elsewhere shall not
      data_group.abort(error.what());
      tensor_group.abort(error.what());
      throw;
    }
  });
  result.first_weights = first_weights.whole(result.fault);
  result.first_gradients = first_gradients.whole(result.fault);
  result.last_weights = last_weights.whole(result.fault);
  return result;
}

inline double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

// The largest difference of a tensor, relative to its norm, and where it is. One below 1e-7 of the largest
// norm is none: what is zero but for rounding, like the gradient of a key's bias, has no relative error.
struct Difference {
  double worst = 0.0;
  std::string where;
  void note(double value, const std::string& place) {
    if (!(value <= worst)) {  // NaN too
      worst = std::isnan(value) ? HUGE_VAL : value;
      where = place;
    }
  }
};

// `skip`: names that are not compared.
inline void compare(Difference& difference, const std::string& what, const WholeTensors& got,
                    const WholeTensors& expected, const std::function<bool(const std::string&)>& skip) {
  double largest = 0.0;
  for (const auto& [name, values] : expected) largest = std::max(largest, norm_of(values));
  for (const auto& [name, values] : expected) {
    if (skip(name)) continue;
    const auto& other = got.at(name);
    double gap = 0.0;
    for (size_t i = 0; i < values.size(); ++i) gap += std::pow(double{other[i]} - double{values[i]}, 2);
    if (!(std::sqrt(gap) <= 1e-7 * largest))
      difference.note(std::sqrt(gap) / norm_of(values), what + " " + name);
  }
}

inline Difference compare(const LayoutRun& got, const LayoutRun& expected) {
  Difference difference;
  if (!got.fault.empty()) difference.note(HUGE_VAL, got.fault);
  EXPECT_EQ(got.losses.size(), expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const std::string step = " of step " + std::to_string(i + 1);
    difference.note(std::abs(got.losses[i] / expected.losses[i] - 1.0), "loss" + step);
    difference.note(std::abs(got.grad_norms[i] / expected.grad_norms[i] - 1.0), "grad_norm" + step);
  }
  compare(difference, "gradient of step 1 of", got.first_gradients, expected.first_gradients,
          [](const std::string&) { return false; });
  // AdamW makes steps of full length of a gradient that is zero but for rounding.
  double largest = 0.0;
  for (const auto& [name, values] : expected.first_gradients) largest = std::max(largest, norm_of(values));
  compare(difference, "last", got.last_weights, expected.last_weights, [&](const std::string& name) {
    const auto found = expected.first_gradients.find(name);  // what is state has none
    return found != expected.first_gradients.end() && norm_of(found->second) <= 1e-7 * largest;
  });
  return difference;
}

}  // namespace athanor
