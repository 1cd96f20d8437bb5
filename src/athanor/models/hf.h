// Import and export of models in Hugging Face's form: a folder with config.json, model.safetensors (or shards with an
// index) and tokenizer.json. Both directions are exact: values are copied, split, joined or transposed, never computed.
//
//   export_hf(env, "runs/first", "first-hf", {.dtype = Dtype::f32});
//   import_hf(env, "gpt2", "runs/base", arena, /*force=*/false);   // a checkpoint: for init_from, evaluate, generate
//   const HfWeights weights(env, "gpt2");            // or read straight from the folder
//   weights.read("blocks.0.attn.q.weight", values);
//
// Each model family (models/llama/hf.h, ...) has a table of its names in config.json and of its tensors. Errors: Error
// or ConfigError naming the key of config.json that is not supported, or the tensor that is missing, left over or of
// another shape. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/store/safetensors_index.h"
#include "athanor/tensor/forward.h"

namespace athanor::models {

struct HfFamily;

class HfWeights {
 public:
  HfWeights(Env& env, const std::string& path);

  const std::string& path() const { return path_; }
  const Config& config() const { return config_; }                  // section [model]; the rest is default
  const std::vector<std::string>& names() const { return names_; }  // Athanor's names, in the model's order
  const Shape& shape(const std::string& name) const { return parts_.at(name).shape; }
  void read(const std::string& name, float* values) const;  // f32, in Athanor's layout

 private:
  // Source of one Athanor parameter: rows [first_row, first_row + shape[0]) of a Hugging Face tensor, which may be
  // transposed; or a stack of Hugging Face tensors.
  struct Part {
    Shape shape;
    std::vector<SafetensorsFolder::Place> places;
    int64_t first_row = 0;
    bool transposed = false;
  };
  void place_parts(const HfFamily& family);
  void check_tied_head() const;

  std::string path_;
  Config config_;
  SafetensorsFolder folder_;
  std::vector<std::string> names_;
  std::map<std::string, Part> parts_;
};

// What HfWeights::config() says, of the config.json at this path or in the folder there: for model.config. Error naming
// the file and the key.
Config load_hf_config(Env& env, const std::string& path);

struct HfExportOptions {
  Dtype dtype = Dtype::f32;                  // f32, bf16 or f16
  uint64_t max_shard_bytes = 5'000'000'000;  // a larger model is split into several files
  bool force = false;                        // replace a folder that holds a config.json
};

// `path`: a run or a checkpoint. Atomic: the folder appears complete, after its bytes have been read back and compared,
// or not at all.
void export_hf(Env& env, const std::string& path, const std::string& folder, const HfExportOptions& options);

// Writes a checkpoint of step 0 with weights only to the path `checkpoint`; `force` replaces an existing one. Returns
// the files of the folder that were not used.
std::vector<std::string> import_hf(Env& env, const std::string& folder, const std::string& checkpoint,
                                   Arena& arena, bool force);

}  // namespace athanor::models
