// Where each part of the training state lies (device, host memory, disk) and in which format, by the config's [offload]
// and optimizer.state.
//
//   host = host_memory(config, arena.queue().device());
//   optimizer = make_optimizer(options, model->params(), optimizer_state_options(config, env, host.get()));
//   model->allocate(arena, dtype, /*with_master=*/!keeps_masters_elsewhere(config));
//
// docs/offload.md says what each setting costs. Files and pinned host memory are made later, by the allocate() of their
// users. Thread rule: pure functions.
#pragma once

#include <memory>
#include <string>

#include "athanor/autograd/activation_store.h"
#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/optim/optimizer_state.h"
#include "athanor/parallel/data/bucket_file.h"

namespace athanor::engine {

// The folder of this run's scratch files.
std::string offload_folder(const Config& config);
// The place on disk for state whose `setting` is "disk"; an empty place for state that stays in memory.
DiskPlace place_of(const Config& config, const std::string& setting, Env& env);

// Pinned host memory of a run on a device, as an arena beside the device's.
struct HostMemory {
  explicit HostMemory(Device device);
  std::unique_ptr<Queue> queue;
  Arena arena;
};
// Null where the config puts nothing into host memory. `device`: the device of the run; the null device for a plan.
std::unique_ptr<HostMemory> host_memory(const Config& config, Device device);

// Whether the f32 masters are offloaded: the optimizer state holds them instead of the parameters.
bool keeps_masters_elsewhere(const Config& config);
OptimizerStateOptions optimizer_state_options(const Config& config, Env& env, HostMemory* host);
// Null: activations stay in memory.
std::unique_ptr<ActivationStore> activation_store(const Config& config, Env& env, Arena& arena,
                                                  HostMemory* host);
// Whether optimizer.state = "8bit" applies to a parameter. Embedding tables keep f32 state, because a row's gradient is
// zero in most steps and large in others (the "stable embedding" of Dettmers et al., "8-bit optimizers via block-wise
// quantization", 2022). Small parameters (norms, biases) keep f32 state, too.
bool has_eight_bit_state(const ParamSpec& param);

}  // namespace athanor::engine
