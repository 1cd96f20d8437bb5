#include "athanor/run/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace athanor::run {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 18;

bool is_weight(const std::string& name) {
  return name.find("model.") != std::string::npos;  // also behind the prefix of a replica group
}

bool is_within(const NamedTensor& tensor, float largest) {
  const int64_t numel = tensor.shape().numel();
  if (!tensor.read && tensor.tensor.queue().device() == Device::cpu)
    return all_within(tensor.tensor.data<float>(), numel, largest);
  std::vector<float> values(static_cast<size_t>(std::min(numel, kPieceElements)));
  for (int64_t first = 0; first < numel; first += kPieceElements) {
    const int64_t count = std::min(kPieceElements, numel - first);
    tensor.copy(first, count, values.data());
    if (!all_within(values.data(), count, largest)) return false;
  }
  return true;
}

// A rank's finding, as it is all-gathered.
struct Found {
  int64_t order = std::numeric_limits<int64_t>::max();  // weights first
  char name[248] = {};
};

}  // namespace

float largest_value(Dtype compute) {
  constexpr float kLargestHalf = 65504.0f;
  return compute == Dtype::f16 ? kLargestHalf : kLargestFloat;
}

bool all_within(const float* values, int64_t count, float largest) {
  constexpr int64_t kBlock =
      4096;  // so that a bad value ends the search soon, and the inner loop runs on vectors
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t last = std::min(first + kBlock, count);
    int bad = 0;
    for (int64_t i = first; i < last; ++i) bad |= static_cast<int>(!(std::abs(values[i]) <= largest));
    if (bad != 0) return false;
  }
  return true;
}

std::optional<std::string> first_not_finite(const std::vector<NamedTensor>& tensors, Group& group,
                                            float largest, const std::string& part) {
  Found mine;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NamedTensor& tensor = tensors[i];
    const int64_t order = static_cast<int64_t>(i) + (is_weight(tensor.name) ? 0 : int64_t{1} << 32);
    if (order >= mine.order || tensor.name.find(part) == std::string::npos || is_within(tensor, largest))
      continue;
    mine.order = order;
    std::strncpy(mine.name, tensor.name.c_str(), sizeof(mine.name) - 1);
  }
  std::vector<Found> all(static_cast<size_t>(group.size()));
  group.all_gather(&mine, all.data(), sizeof(Found), Dtype::u8, "first tensor that is not finite").wait();
  const auto first = std::min_element(all.begin(), all.end(),
                                      [](const Found& a, const Found& b) { return a.order < b.order; });
  if (first->name[0] == 0) return std::nullopt;
  first->name[sizeof(first->name) - 1] = 0;
  return first->name;
}

std::string fault_of_step(const StepResult& result, const StepMetrics& metrics) {
  if (!std::isfinite(result.loss)) return fmt::format("step {}: the loss is not finite", metrics.step);
  if (!result.applied && result.loss_scale <= LossScale::kMin)
    return fmt::format("step {}: gradients overflow at the smallest loss scale, {:g}", metrics.step,
                       result.loss_scale);
  for (const auto& [channel, loss] : metrics.valid_channel_loss)
    if (!std::isfinite(loss))
      return fmt::format("step {}: the validation loss of channel '{}' is not finite", metrics.step, channel);
  if (metrics.valid_loss && !std::isfinite(*metrics.valid_loss))
    return fmt::format("step {}: the validation loss is not finite", metrics.step);
  return "";
}

std::string name_not_finite(const std::string& what, const std::vector<NamedTensor>& tensors, Group& group,
                            Dtype compute) {
  if (const auto name = first_not_finite(tensors, group))
    return fmt::format("{}; the first tensor that is not finite is '{}'", what, *name);
  if (const auto name = first_not_finite(tensors, group, largest_value(compute), "model."))
    return fmt::format("{}; '{}' has values that {} does not hold", what, *name, name_of(compute));
  return what + "; all weights and the optimizer state are finite";
}

std::string last_finite_checkpoint(Env& env, const std::string& folder, int64_t before_step) {
  const auto is_one = [&](const std::string& path) {
    const Checkpoint checkpoint = Checkpoint::open(env, path);
    return checkpoint.step() < before_step &&
           std::all_of(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                       [&](const TensorEntry& entry) {
                         std::vector<float> values(static_cast<size_t>(entry.shape.numel()));
                         checkpoint.read(entry.name, values.data());
                         return all_within(values.data(), std::ssize(values), kLargestFloat);
                       });
  };
  const auto paths = list_checkpoints(env, folder);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    try {
      if (is_one(*path)) return *path;
    } catch (const Failure&) {  // damaged: not the one
    }
  }
  return "";
}

}  // namespace athanor::run
