// Loads trained weights from a run (its newest valid checkpoint), a checkpoint, or a Hugging Face folder (models/hf.h).
//
//   LoadedModel loaded = load_model(env, "runs/first", arena, std::nullopt);   // to evaluate or generate
//   load_params(env, config.train.init_from, *model);                          // into an existing model
//
// A checkpoint that a live run removes while it is being read is no error: the newest one is tried again. Errors: Error
// saying what was found and what was expected: no such path, a folder that is none of the three, no checkpoint that
// verifies (with the reason for each), a tensor of another shape. Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/models/model.h"
#include "athanor/text/tokenizer_files.h"

namespace athanor::checkpoint {
class Checkpoint;
}  // namespace athanor::checkpoint

namespace athanor::models {

// The kind and place of the weights at a path.
struct WeightsPath {
  enum class Kind { checkpoint, hugging_face } kind;
  std::string path;                       // the checkpoint, or the Hugging Face folder
  std::vector<std::string> skipped = {};  // a line for each newer checkpoint that is damaged
};
WeightsPath find_weights(Env& env, const std::string& path);

// The files of a checkpoint that describe how its tokenizer is used.
TokenizerFiles tokenizer_files_of(const Checkpoint& checkpoint);

struct LoadedModel {
  Config config;                   // from a Hugging Face folder: section [model], the rest is default
  std::unique_ptr<Model> model;    // without f32 masters where it computes in bf16 or f16
  std::string tokenizer_json;      // empty where there is none
  TokenizerFiles tokenizer_files;  // tokenizer.json and its companions: Tokenizer::parse(json, path, files)
  int64_t step = 0;
  std::string path;                  // the checkpoint or folder that was read
  std::vector<std::string> skipped;  // as in WeightsPath
};

// `compute`: the compute dtype; none: the one that the model was trained with.
LoadedModel load_model(Env& env, const std::string& path, Arena& arena, std::optional<Dtype> compute);

// Reads the weights of an allocated model: the parameters for which `wanted` is true; all, if it is empty. Every tensor
// must exist with the model's shape, and none may be left over. Returns where the weights were found.
WeightsPath load_params(Env& env, const std::string& path, Model& model,
                        const std::function<bool(const ParamSpec&)>& wanted = {});

}  // namespace athanor::models
