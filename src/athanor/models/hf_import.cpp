#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/print.h"
#include "athanor/models/hf.h"
#include "athanor/models/model.h"
#include "athanor/text/tokenizer.h"

namespace athanor::models {
namespace {

void check_free_for_checkpoint(Env& env, const std::string& path, bool force) {
  if (!env.exists(path)) return;
  const bool is_checkpoint = env.exists(join_path(path, "manifest.json"));
  if (env.is_folder(path) && (env.list(path).empty() || (force && is_checkpoint))) return;
  throw Error(fmt::format("'{}': already exists, expected a new folder", path),
              is_checkpoint ? "give --force to replace this checkpoint" : "");
}

std::vector<std::string> left_out(Env& env, const std::string& folder, const TokenizerFiles& taken) {
  std::vector<std::string> names;
  for (const std::string& name : env.list(folder))
    if (!name.starts_with('.') && name != "config.json" && !name.ends_with(".safetensors") &&
        name != "model.safetensors.index.json" && !taken.contains(name))
      names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::string> import_hf(Env& env, const std::string& folder, const std::string& checkpoint,
                                   Arena& arena, bool force) {
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
  const TokenizerFiles tokenizer = read_tokenizer_files(env, folder);
  if (const auto found = tokenizer.find(kTokenizerFile); found != tokenizer.end())
    Tokenizer::parse(found->second, join_path(folder, kTokenizerFile),
                     tokenizer);  // finds out now what is wrong in it
  for (const auto& [name, text] : tokenizer) content.files.push_back({name, text});
  const auto group = make_single_group();
  write_checkpoint_at(env, *group, checkpoint, content);
  return left_out(env, folder, tokenizer);
}

}  // namespace athanor::models
