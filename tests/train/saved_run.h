// A run in a layout (layout_run.h) that is saved after some steps, and one that goes on from there in the same layout or
// in another.
//
//   const SavedRun saved = save_after(config, /*steps=*/2);                  // in a temporary folder
//   const VerifyRun rest = resume(other_layout, saved);                      // to the last step of its config
//   const SavedRun later = save_after(other_layout, /*steps=*/4, &saved);
#pragma once

#include <map>
#include <string>

#include "checkpoint/content.h"
#include "support/temporary_folder.h"
#include "train/layout_run.h"

namespace athanor::tests {

struct SavedRun {
  std::string folder;
  TrainState then;
  VerifyRun run;  // the steps that it made
};

inline LayoutHooks going_on_from(const SavedRun& saved) {
  return {.begin = [&](Training& training, TrainState& state, World&) {
    training.load(Checkpoint::open(system_env(), saved.folder));
    training.role->publish(saved.then);
    state = saved.then;
  }};
}

inline VerifyRun resume(const Config& config, const SavedRun& saved) {
  return run_layout(config, going_on_from(saved));
}

// `steps` in all, of which `from` has made the first.
inline SavedRun save_after(const Config& config, int64_t steps, const SavedRun* from = nullptr) {
  static int number = 0;
  SavedRun saved{.folder = temporary_path("saved_" + std::to_string(number++)), .then = {}, .run = {}};
  LayoutHooks hooks = from != nullptr ? going_on_from(*from) : LayoutHooks{};
  hooks.end = [&](Training& training, TrainState& state, World& world) {
    write_checkpoint_at(
        system_env(), world.all(), saved.folder,
        {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
    if (world.rank() == 0) saved.then = state;
  };
  saved.run = run_layout(config, hooks, steps);
  return saved;
}

// What error feedback owes each tensor, over all ranks and replica groups, and of the sums.
inline std::map<std::string, double> owed(const WholeTensors& state) {
  std::map<std::string, double> sums;
  for (const auto& [name, values] : state)
    for (const std::string kind : {"error_feedback.", "server_error."}) {
      const size_t at = name.find(kind);
      if (at == std::string::npos) continue;
      // Of a rank's: error_feedback.RANK.NAME.
      std::string tensor = name.substr(at + kind.size());
      if (std::isdigit(static_cast<unsigned char>(tensor[0])) != 0) tensor.erase(0, tensor.find('.') + 1);
      for (const float value : values) sums[tensor] += double{value};
    }
  return sums;
}

}  // namespace athanor::tests
