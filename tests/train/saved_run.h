// A run in a layout (layout_run.h) that is saved after some steps, and one that goes on from there in the same layout or
// in another.
//
//   const SavedRun saved = save_after(config, /*steps=*/2, "name");          // in the test's temporary folder
//   const VerifyRun rest = resume(other_layout, saved);
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/content.h"
#include "support/temporary_folder.h"
#include "train/layout_run.h"

namespace athanor::tests {

struct SavedRun {
  std::string folder;
  TrainState then;
};

// Collective: of all ranks of a run that is at the end of a step.
inline void save_run(const Training& training, const TrainState& state, World& world,
                     const std::string& folder) {
  write_checkpoint_at(
      system_env(), world.all(), folder,
      {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
}

inline SavedRun save_after(Config config, int64_t steps, const std::string& name) {
  SavedRun saved{.folder = temporary_path(name), .then = {}};
  std::filesystem::remove_all(saved.folder);
  config.train.steps = steps;
  run_layout(config, {.end = [&](Training& training, TrainState& state, World& world) {
               save_run(training, state, world, saved.folder);
               if (world.rank() == 0) saved.then = state;
             }});
  return saved;
}

inline VerifyRun resume(const Config& config, const SavedRun& saved,
                        const std::function<void(Training&, TrainState&, World&)>& loaded = {}) {
  return run_layout(config, {.begin = [&](Training& training, TrainState& state, World& world) {
                      training.load(Checkpoint::open(system_env(), saved.folder));
                      training.publish(saved.then);
                      state = saved.then;
                      if (loaded) loaded(training, state, world);
                    }});
}

}  // namespace athanor::tests
