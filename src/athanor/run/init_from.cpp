#include "athanor/run/init_from.h"

#include <filesystem>

#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/load.h"
#include "athanor/config/phases.h"
#include "athanor/config/refuse.h"
#include "athanor/data/dataset.h"
#include "athanor/models/hf.h"
#include "athanor/models/load.h"
#include "athanor/run/run_folder.h"

namespace athanor::run {
namespace {

constexpr const char* kConfigFile = "config.resolved.toml";
constexpr const char* kTokenizerFile = "tokenizer.json";

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// Reads from the newest checkpoint whose manifest can be read. Its tensors are verified later, when they are loaded.
std::optional<InitSource> of_checkpoint(Env& env, const std::string& path) {
  const auto found = list_checkpoints(env, path);
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    try {
      const Checkpoint checkpoint = Checkpoint::open(env, *each);
      const Config config = parse_config(checkpoint.file_text(kConfigFile), join_path(*each, kConfigFile));
      return InitSource{
          .model = model_at(config, checkpoint.step()),
          .what = fmt::format("init_from {} (step {})", printable(path), checkpoint.step()),
          .tokenizer = checkpoint.has_file(kTokenizerFile) ? absolute(join_path(*each, kTokenizerFile)) : ""};
    } catch (const Failure&) {
      if (std::next(each) == found.rend()) throw;
    }
  }
  return std::nullopt;
}

InitSource of_hugging_face(Env& env, const std::string& path) {
  const std::string tokenizer = join_path(path, kTokenizerFile);
  return {.model = HfWeights(env, path).config().model,
          .what = "init_from " + printable(path),
          .tokenizer = env.exists(tokenizer) ? absolute(tokenizer) : ""};
}

// Checks that data.tokenizer is the tokenizer that the weights were trained with.
void check_tokenizer(Env& env, const Config& config, const InitSource& source) {
  const std::string& ours = config.data.tokenizer;
  if (ours.empty() || source.tokenizer.empty()) return;
  const auto got = open_tokenizer(config, env), expected = Tokenizer::load(env, source.tokenizer);
  if (got->json() == expected->json()) return;
  const std::string hash = tokenizer_hash(*got), wanted = tokenizer_hash(*expected);
  if (hash != wanted)
    refuse(
        config, "data.tokenizer",
        "leave data.tokenizer out: the tokenizer is that of train.init_from; with another one its ids mean "
        "other text",
        "got '{}' ({} tokens, hash {}), expected the tokenizer of {} ({} tokens, hash {})", printable(ours),
        got->vocab_size(), hash.substr(0, 12), source.what, expected->vocab_size(), wanted.substr(0, 12));
}

InitSource open_source(Env& env, const Config& config) {
  std::string path = config.train.init_from;
  const RunFolder own(config);
  if (!env.exists(path) && !list_checkpoints(env, own.path).empty()) path = own.path;
  auto source = of_checkpoint(env, path);
  if (!source) source = of_hugging_face(env, find_weights(env, path).path);
  source->model.preset.clear();
  check_tokenizer(env, config, *source);
  return *std::move(source);
}

}  // namespace

ConfigSources config_sources(Env& env) {
  return {.init_from = [&env](const Config& config) { return open_source(env, config); },
          .model_config =
              [&env](const std::string& path) {
                const Config read = load_hf_config(env, path);
                return InitSource{.model = read.model, .what = read.origins.at("model.model_type").text};
              }};
}

}  // namespace athanor::run
