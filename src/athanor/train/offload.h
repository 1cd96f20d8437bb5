// Which state of a training is where and in which form, by its config: [offload] and optimizer.state.
//
//   host = host_memory(config, arena.queue().device());
//   optimizer = make_optimizer(options, model->params(), optimizer_state_options(config, env, host.get()));
//   model->allocate(arena, dtype, /*with_master=*/!keeps_masters_elsewhere(config));
//
// docs/offload.md says what each setting costs. Pure functions: files and what lies in the host's memory are made when
// memory is allocated.
#pragma once

#include <memory>
#include <string>

#include "athanor/autograd/activation_store.h"
#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/optim/optimizer_state.h"
#include "athanor/parallel/bucket_file.h"

namespace athanor {

// Where scratch files of this run lie.
std::string offload_folder(const Config& config);
// Where what the setting says is "disk" lies; nowhere: in memory.
DiskPlace place_of(const Config& config, const std::string& setting, Env& env);

// What a device's run keeps in pinned memory of the host, as an arena beside the device's.
struct HostMemory {
  explicit HostMemory(Device device);
  std::unique_ptr<Queue> queue;
  Arena arena;
};
// Null where the config puts nothing there. `device`: the run's; a plan's is the null device.
std::unique_ptr<HostMemory> host_memory(const Config& config, Device device);

bool keeps_masters_elsewhere(const Config& config);
OptimizerStateOptions optimizer_state_options(const Config& config, Env& env, HostMemory* host);
// Null: activations stay in memory.
std::unique_ptr<ActivationStore> activation_store(const Config& config, Env& env, Arena& arena,
                                                  HostMemory* host);
// Whether optimizer.state = "8bit" holds for a parameter. Tables of embeddings keep f32: a row's gradient is zero in
// most steps and large in others (Dettmers et al., "8-bit optimizers via block-wise quantization", 2022, call this the
// stable embedding); so does what is small: norms, biases.
bool has_eight_bit_state(const Param& param);

}  // namespace athanor
