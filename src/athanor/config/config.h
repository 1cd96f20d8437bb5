// The whole of a run's settings: one tree of plain structs, read once from strict TOML, checked, then const.
//
//   Config config = load_config(env, "first.toml", sets);   // config/load.h
//
// A table of TOML is a struct, a key is a member of the same name:
//   [model] model_config.h · [data] data_config.h · [train], [optimizer], [schedule], [precision] train_config.h ·
//   [parallel], [local_sgd], [compression], [parameter_server] parallel_config.h ·
//   [offload], [checkpoint], [snapshot], [guard], [launch] run_config.h · [[phase]] phase_config.h
// Every key has a default that makes sense. An unknown key, a wrong type or an illegal value is a ConfigError naming
// the key, got, expected and the nearest known name. fields.h lists all keys; docs/settings.md is made from it.
// Thread rule: plain data.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "athanor/config/data_config.h"
#include "athanor/config/model_config.h"
#include "athanor/config/parallel_config.h"
#include "athanor/config/phase_config.h"
#include "athanor/config/run_config.h"
#include "athanor/config/train_config.h"

namespace athanor::config {

// Where a value came from. A key without one has the program's default.
struct Origin {
  enum class Kind {
    file,          // text is "first.toml:12"
    command_line,  // "--set train.steps=10"
    preset,        // "preset llama-tiny"
    model_config,  // "/home/me/gpt2/config.json": the file that model.config names
    derived,       // "hidden_size / num_attention_heads"
    source,        // "init_from runs/base": the settings of the weights that the run starts from
  };
  Kind kind = Kind::file;
  std::string text = {};
  bool by_user() const {
    return kind == Kind::file || kind == Kind::command_line || kind == Kind::model_config;
  }
};

struct Config {
  ModelConfig model = {};
  DataConfig data = {};
  TrainConfig train = {};
  OptimizerConfig optimizer = {};
  ScheduleConfig schedule = {};
  PrecisionConfig precision = {};
  ParallelConfig parallel = {};
  LocalSgdConfig local_sgd = {};
  CompressionConfig compression = {};
  ParameterServerConfig parameter_server = {};
  OffloadConfig offload = {};
  CheckpointConfig checkpoint = {};
  SnapshotConfig snapshot = {};
  GuardConfig guard = {};
  LaunchConfig launch = {};
  std::vector<Phase> phases =
      {};                   // none: the run is one phase; phases_of() (phases.h) gives each one's settings
  std::string folder = {};  // of the config file; load_config has already made relative data paths start here
  std::map<std::string, Origin, std::less<>> origins = {};  // "train.steps" -> where it was set
  std::vector<std::string> warnings =
      {};  // what is legal and doubtful, a sentence each; training says them first
};

// Whether tokens are taken out and filled in: data.objective, or what the model is for.
inline bool masks_tokens(const Config& config) {
  return config.data.objective == "auto" ? config.model.is_encoder() : config.data.objective == "masked";
}

}  // namespace athanor::config
