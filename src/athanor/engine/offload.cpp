#include "athanor/engine/offload.h"

#include "athanor/engine/activation_file.h"
#include "athanor/engine/host_activations.h"
#include "athanor/kernels/table.h"
#include "athanor/store/disk_records.h"
#include "athanor/store/host_records.h"

namespace athanor::engine {
namespace {

constexpr int64_t kFewElements = 4096;

}  // namespace

std::string offload_folder(const Config& config) {
  return config.offload.path.empty() ? join_path(config.train.runs, config.train.name) : config.offload.path;
}

DiskPlace place_of(const Config& config, const std::string& setting, Env& env) {
  if (setting != "disk") return {};
  return {&env, offload_folder(config)};
}

HostMemory::HostMemory(Device device)
    : queue(device == Device::null ? make_null_queue() : make_cpu_queue(nullptr, Isa::generic)),
      arena(*queue) {}

std::unique_ptr<HostMemory> host_memory(const Config& config, Device device) {
  if (config.offload.optimizer != "host" && config.offload.activations != "host") return nullptr;
  return std::make_unique<HostMemory>(device);
}

bool keeps_masters_elsewhere(const Config& config) {
  return config.offload.optimizer != "memory";
}

OptimizerStateOptions optimizer_state_options(const Config& config, Env& env, HostMemory* host) {
  OptimizerStateOptions options;
  if (config.offload.optimizer == "host") options.records = std::make_unique<HostRecords>(host->arena);
  if (config.offload.optimizer == "disk")
    options.records = std::make_unique<DiskRecords>(env, offload_folder(config), "the optimizer's state");
  if (config.optimizer.state == "8bit") options.eight_bits = has_eight_bit_state;
  return options;
}

std::unique_ptr<ActivationStore> activation_store(const Config& config, Env& env, Arena& arena,
                                                  HostMemory* host) {
  if (config.offload.activations == "disk")
    return std::make_unique<ActivationFile>(env, offload_folder(config), arena);
  if (config.offload.activations == "host") return std::make_unique<HostActivations>(arena, host->arena);
  return nullptr;
}

bool has_eight_bit_state(const ParamSpec& param) {
  return param.is_matrix() && param.whole_shape().numel() >= kFewElements && !param.is_table();
}

}  // namespace athanor::engine
