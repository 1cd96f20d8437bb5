// Trained weights from wherever they are: a run (its newest valid checkpoint), a checkpoint, or a Hugging
// Face folder (models/hf.h).
//
//   LoadedModel loaded = load_model(env, "runs/first", arena, std::nullopt);   // to evaluate or generate
//   with load_params(env, config.train.init_from, *model);                          // into a model of one's
//   own
//
// Errors: Error saying what was found and what was expected: no such path, a folder that is none of the
// three, no checkpoint that verifies (with the reason of each), a tensor of another shape. What a run that goes on removes
// while it is read is no error: its newest is taken again. Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/models/model.h"
#include "athanor/text/tokenizer_files.h"

namespace athanor {

// Where the weights at a path are.
struct WeightsPath {
  enum class Kind { checkpoint, hugging_face } kind;
  std::string path;                       // of the checkpoint or the folder itself
  std::vector<std::string> skipped = {};  // a line for each newer checkpoint that is damaged
};
WeightsPath find_weights(Env& env, const std::string& path);

class Checkpoint;
// Those files of a checkpoint that say how its tokenizer is used.
TokenizerFiles tokenizer_files_of(const Checkpoint& checkpoint);

struct LoadedModel {
  Config config;                   // of a Hugging Face folder: the model, else the defaults
  std::unique_ptr<Model> model;    // without f32 masters where it computes in bf16 or f16
  std::string tokenizer_json;      // empty where there is none
  TokenizerFiles tokenizer_files;  // that and those beside it: Tokenizer::parse(json, path, files)
  int64_t step = 0;
  std::string path;                  // of what was read
  std::vector<std::string> skipped;  // as in WeightsPath
};

// `compute`: none takes the type that the model was trained in.
LoadedModel load_model(Env& env, const std::string& path, Arena& arena, std::optional<Dtype> compute);

// Weights into an allocated model, those that are `wanted` (all, if it is empty); every tensor must be there, have the
// model's shape, and none be left over. Returns where they were.
WeightsPath load_params(Env& env, const std::string& path, Model& model,
                        const std::function<bool(const Param&)>& wanted = {});

}  // namespace athanor
