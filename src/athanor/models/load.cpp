#include "athanor/models/load.h"

#include <functional>
#include <set>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/steady_read.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/models/hf.h"

namespace athanor::models {
namespace {

constexpr const char* kConfigName = "config.resolved.toml";
const std::string kPrefix = "model.";

void check_shape(const std::string& path, const ParamSpec& param, const Shape& found) {
  const Shape& expected = param.whole_shape();
  if (found == expected) return;
  const bool vocabulary = found.dims() == 2 && expected.dims() == 2 && found[1] == expected[1] &&
                          (param.name() == "embed.weight" || param.name() == "head.weight");
  throw Error(fmt::format("'{}': tensor '{}': got {}, expected {}", path, param.name(), found, expected),
              vocabulary ? fmt::format("its vocabulary has {} tokens: use its tokenizer and set "
                                       "model.vocab_size={}",
                                       found[0], found[0])
                         : "set [model] as in the weights' own config");
}

// `shape_of`: the shape of a parameter in the source; none where the source does not have it.
struct Source {
  std::string path;
  std::vector<std::string> names;
  std::function<Shape(const std::string&)> shape_of;
  std::function<void(const std::string&, float*)> read;
};

void fill(const Source& source, Model& model, const std::function<bool(const ParamSpec&)>& wanted = {}) {
  std::set<std::string> left(source.names.begin(), source.names.end());
  for (const auto& param : model.params()) {
    check(left.erase(param->name()) == 1, "'{}': the tensor '{}' is missing", source.path, param->name());
    check_shape(source.path, *param, source.shape_of(param->name()));
  }
  model.for_each_declared([&](const ParamSpec& p) { left.erase(p.name()); });  // some are on other ranks
  check(left.empty(), "'{}': got the tensor '{}', which this model has not", source.path,
        left.empty() ? "" : *left.begin());
  for (const auto& param : model.params()) {
    if (wanted && !wanted(*param)) continue;
    std::vector<float> values(static_cast<size_t>(param->whole_shape().numel()));
    source.read(param->name(), values.data());
    param->store_whole(values.data());
  }
}

Source source_of(const Checkpoint& checkpoint) {
  Source source{.path = checkpoint.path(), .names = {}, .shape_of = {}, .read = {}};
  for (const TensorEntry& entry : checkpoint.tensors())
    if (entry.name.rfind(kPrefix, 0) == 0) source.names.push_back(entry.name.substr(kPrefix.size()));
  source.shape_of = [&](const std::string& name) { return checkpoint.at(kPrefix + name).shape; };
  source.read = [&](const std::string& name, float* values) { checkpoint.read(kPrefix + name, values); };
  return source;
}

Source source_of(const HfWeights& weights) {
  Source source{.path = weights.path(), .names = weights.names(), .shape_of = {}, .read = {}};
  source.shape_of = [&](const std::string& name) { return weights.shape(name); };
  source.read = [&](const std::string& name, float* values) { weights.read(name, values); };
  return source;
}

}  // namespace

WeightsPath find_weights(Env& env, const std::string& path) {
  constexpr const char* kExpected = "expected a run, a checkpoint or a Hugging Face folder";
  check(env.exists(path), "'{}': no such path, {}", path, kExpected);
  check(env.is_folder(path), "'{}': got a file, {}", path, kExpected);
  std::vector<std::string> skipped;
  if (auto newest = newest_checkpoint(env, path, &skipped))
    return {WeightsPath::Kind::checkpoint, std::move(*newest), std::move(skipped)};
  if (!skipped.empty())
    throw Error(fmt::format("'{}': none of its {} checkpoints is valid", path, skipped.size()),
                skipped.front());
  if (env.exists(join_path(path, "config.json"))) return {WeightsPath::Kind::hugging_face, path, {}};
  fail("'{}': got a folder without checkpoints and without config.json, {}", path, kExpected);
}

TokenizerFiles tokenizer_files_of(const Checkpoint& checkpoint) {
  TokenizerFiles files;
  for (const std::string& name : tokenizer_file_names())
    if (checkpoint.has_file(name)) files[name] = checkpoint.file_text(name);
  return files;
}

namespace {

// Calls use(weights), again if a live run has removed the checkpoint in the meantime.
WeightsPath with_weights(Env& env, const std::string& path,
                         const std::function<void(const WeightsPath&)>& use) {
  WeightsPath weights;
  read_steadily(
      env,
      [&] {
        weights = find_weights(env, path);
        return weights.path;
      },
      [&](const std::string&) { use(weights); });
  return weights;
}

LoadedModel load_found(Env& env, const WeightsPath& weights, Arena& arena, std::optional<Dtype> compute) {
  LoadedModel loaded;
  loaded.path = weights.path;
  loaded.skipped = weights.skipped;
  const auto make = [&](const Source& source) {
    check(loaded.config.model.vocab_size > 0, "'{}': its config has no vocabulary size", weights.path);
    loaded.model = make_model(loaded.config.model);
    loaded.model->allocate(arena, compute.value_or(parse_dtype(loaded.config.precision.compute)), false);
    fill(source, *loaded.model);
  };
  if (weights.kind == WeightsPath::Kind::checkpoint) {
    const Checkpoint checkpoint = Checkpoint::open(env, weights.path);
    loaded.config = parse_config(checkpoint.file_text(kConfigName), join_path(weights.path, kConfigName));
    loaded.step = checkpoint.step();
    loaded.config.model = model_at(loaded.config, checkpoint.step());
    loaded.tokenizer_files = tokenizer_files_of(checkpoint);
    make(source_of(checkpoint));
  } else {
    const HfWeights folder(env, weights.path);
    loaded.config = folder.config();
    loaded.tokenizer_files = read_tokenizer_files(env, weights.path);
    make(source_of(folder));
  }
  if (const auto found = loaded.tokenizer_files.find(kTokenizerFile); found != loaded.tokenizer_files.end())
    loaded.tokenizer_json = found->second;
  return loaded;
}

}  // namespace

LoadedModel load_model(Env& env, const std::string& path, Arena& arena, std::optional<Dtype> compute) {
  std::optional<LoadedModel> loaded;
  with_weights(env, path, [&](const WeightsPath& weights) {
    loaded.reset();
    loaded = load_found(env, weights, arena, compute);
  });
  return std::move(*loaded);
}

WeightsPath load_params(Env& env, const std::string& path, Model& model,
                        const std::function<bool(const ParamSpec&)>& wanted) {
  return with_weights(env, path, [&](const WeightsPath& weights) {
    if (weights.kind == WeightsPath::Kind::checkpoint) {
      const Checkpoint checkpoint = Checkpoint::open(env, weights.path);
      fill(source_of(checkpoint), model, wanted);
    } else {
      const HfWeights folder(env, weights.path);
      fill(source_of(folder), model, wanted);
    }
  });
}

}  // namespace athanor::models
