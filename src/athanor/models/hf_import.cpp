#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/print.h"
#include "athanor/models/hf.h"
#include "athanor/models/model.h"

namespace athanor {
namespace {

void check_free_for_checkpoint(Env& env, const std::string& path, bool force) {
  if (!env.exists(path)) return;
  const bool is_checkpoint = env.exists(join_path(path, "manifest.json"));
  if (env.is_folder(path) && (env.list(path).empty() || (force && is_checkpoint))) return;
  throw Error(fmt::format("'{}': already exists, expected a new folder", path),
              is_checkpoint ? "give --force to replace this checkpoint" : "");
}

}  // namespace

void import_hf(Env& env, const std::string& folder, const std::string& checkpoint, Arena& arena, bool force) {
  check_free_for_checkpoint(env, checkpoint, force);
  const HfWeights weights(env, folder);
  CheckpointContent content{
      .step = 0, .state = R"({"step":0,"weights_only":true})", .tensors = {}, .files = {}};
  for (const std::string& name : weights.names()) {
    Tensor values = empty(arena, weights.shape(name), Dtype::f32, Category::parameters);
    weights.read(name, values.data<float>());
    content.tensors.push_back({"model." + name, values});
  }
  content.files.push_back({"config.resolved.toml", print_config(weights.config())});
  const std::string tokenizer = join_path(folder, "tokenizer.json");
  if (env.exists(tokenizer))
    content.files.push_back({"tokenizer.json", env.read_text(tokenizer, kMaxTokenizerBytes)});
  const auto group = make_single_group();
  write_checkpoint_at(env, *group, checkpoint, content);
}

}  // namespace athanor
