#include "athanor/data/dataset.h"

#include <optional>
#include <set>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/data/instructions/instruction_encoder.h"
#include "athanor/data/mixture.h"

namespace athanor::data {
namespace {

int64_t vocabulary(const Config& config, const DatasetOptions& options, const Tokenizer* tokenizer) {
  const int64_t vocab_size = options.vocab_size > 0 ? options.vocab_size : config.model.vocab_size;
  if (tokenizer == nullptr) {
    if (vocab_size < 1)
      throw ConfigError("model.vocab_size: got none, expected one where data.tokenizer is not set",
                        "set data.tokenizer, or model.vocab_size to the vocabulary of the token files");
    return vocab_size;
  }
  if (vocab_size < 1) return tokenizer->vocab_size();
  if (vocab_size < tokenizer->vocab_size())
    throw ConfigError(fmt::format("model.vocab_size: got {}, expected at least the {} ids of the tokenizer",
                                  vocab_size, tokenizer->vocab_size()));
  return vocab_size;
}

// The text at a path wins over token files of the same name: they may be older.
bool is_token_file(Env& env, const std::string& channel, const std::string& path) {
  const std::string prefix = token_file_prefix(path);
  if (prefix == path && env.exists(path)) return false;
  if (env.exists(prefix + ".idx") || env.exists(prefix + ".bin")) return true;
  throw ConfigError(
      fmt::format("channel '{}': there is no '{}', expected a text or JSONL file, a folder of them, or "
                  "the prefix of a .bin/.idx pair",
                  channel, path),
      "relative paths start at the folder of the config file");
}

std::string token_file_of(Env& env, const Config& config, const ChannelConfig& from, const std::string& path,
                          const Tokenizer* tokenizer, const DatasetOptions& options) {
  const std::string& channel = from.name;
  const bool is_instructions =
      !from.messages.empty() || !from.prompt.empty() || !from.answer.empty() || !from.chat_template.empty();
  if (is_token_file(env, channel, path)) {
    if (is_instructions)
      throw ConfigError(
          fmt::format("channel '{}': messages, prompt, answer and template are for JSON, but '{}' is a "
                      "token file",
                      channel, path),
          "remove them: a token file has its own loss mask");
    if (from.fim_rate > 0)
      throw ConfigError(
          fmt::format("channel '{}': fim_rate is for text, but '{}' is a token file", channel, path),
          "athanor dataset build --fim-rate makes such token files");
    std::string prefix = token_file_prefix(path);
    const auto info = read_token_file_info(env, prefix);
    if (info && tokenizer != nullptr && info->tokenizer_hash != tokenizer_hash(*tokenizer))
      throw Error(
          fmt::format(
              "channel '{}': the ids of '{}' come from another tokenizer than data.tokenizer (hash {}, "
              "expected {})",
              channel, prefix, info->tokenizer_hash, tokenizer_hash(*tokenizer)),
          "make them again with 'athanor dataset build'");
    return prefix;
  }
  if (tokenizer == nullptr)
    throw ConfigError(
        fmt::format("data.tokenizer: got none, expected one for the text of channel '{}' ('{}')", channel,
                    path),
        "make one with 'athanor tokenizer train', or give the prefix of a .bin/.idx pair as the path");
  // Beside the runs rather than beside the data, which may be on a read-only disk or somebody else's.
  const std::string cache =
      config.data.cache.empty() ? join_path(config.train.runs, ".cache") : config.data.cache;
  try {
    std::optional<InstructionEncoder> instructions;
    if (is_instructions)
      instructions.emplace(
          *tokenizer, instruction_format(env, from.messages, from.prompt, from.answer, from.chat_template));
    std::optional<FillInTheMiddle> fim;
    if (from.fim_rate > 0) fim.emplace(*tokenizer, FillInTheMiddleOptions{from.fim_rate, from.fim_spm_rate});
    return cached_token_file(env, *tokenizer, path, cache,
                             {.text_key = config.data.text_key,
                              .threads = options.threads,
                              .progress = options.progress,
                              .stop = options.stop,
                              .instructions = instructions ? &*instructions : nullptr,
                              .fim = fim ? &*fim : nullptr});
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("channel '{}': {}", channel, error.what()), error.hint());
  } catch (const Error& error) {
    throw Error(fmt::format("channel '{}': {}", channel, error.what()), error.hint());
  }
}

// Opens the token files of channels, and collects what their sources were.
class TokenFiles {
 public:
  TokenFiles(Env& env, const Config& config, const DatasetOptions& options, Dataset& dataset)
      : env_(env), config_(config), options_(options), dataset_(dataset) {}

  std::shared_ptr<const IndexedDataset> open(const ChannelConfig& from, const std::string& path) {
    const std::string& channel = from.name;
    const std::string prefix = token_file_of(env_, config_, from, path, dataset_.tokenizer.get(), options_);
    const auto info = read_token_file_info(env_, prefix);
    // Files that say nothing of their sources may well have come from JSON.
    key_counts_ |= !info || info->read.files == 0 ||
                   (info->read.json_files > 0 && info->text_key == config_.data.text_key);
    if (info) {
      for (const std::string& remark : remarks(info->read, path))
        dataset_.remarks.push_back(fmt::format("channel '{}': {}", channel, remark));
      for (const LeftOut& entry : info->read.left_out) dataset_.left_out.push_back({channel, entry});
    }
    return std::make_shared<IndexedDataset>(prefix);
  }

  void check_text_key() const {
    if (config_.data.text_key != "text" && !key_counts_)
      throw ConfigError(
          fmt::format("data.text_key: got '{}', but no channel has JSON, where that key would be",
                      config_.data.text_key),
          "remove it");
  }

 private:
  Env& env_;
  const Config& config_;
  const DatasetOptions& options_;
  Dataset& dataset_;
  bool key_counts_ = false;
};

// A text without end: the run's spool of it.
std::shared_ptr<const Spool> open_spool(Env& env, const Config& config, const ChannelConfig& from,
                                        const DatasetOptions& options, const Dataset& dataset) {
  SpoolOptions how{
      .folder = join_path(join_path(join_path(config.train.runs, config.train.name), "spool"), from.name),
      .path = from.path,
      .standard_input = options.standard_input,
      .text_key = config.data.text_key,
      .shape = {.window = config.data.shuffle_window, .seq_len = config.data.seq_len},
      .vocab_size = dataset.vocab_size,
      .writes = options.reads_streams};
  if (from.follow && !env.is_folder(from.path))
    throw ConfigError(
        fmt::format("channel '{}': got follow = true for '{}', expected a folder", from.name, from.path));
  const InstructionFormat format =
      instruction_format(env, from.messages, from.prompt, from.answer, from.chat_template);
  if (format.is_set()) how.instructions = std::make_shared<InstructionEncoder>(*dataset.tokenizer, format);
  return std::make_shared<Spool>(env, dataset.tokenizer, std::move(how));
}

void set_weights(const Config& config, int64_t steps, std::vector<Channel>& channels) {
  std::vector<ChannelAsk> asks;
  for (size_t c = 0; c < channels.size(); ++c) {
    const ChannelConfig& of = config.data.channels[c];
    asks.push_back({of.name, of.weight, of.epochs, of.tokens, channels[c].num_train_sequences(),
                    channels[c].num_train_tokens()});
  }
  const std::vector<double> weights = mixture_weights(asks, {.temperature = config.data.temperature,
                                                             .steps = steps,
                                                             .global_batch = config.train.global_batch_size,
                                                             .seq_len = config.data.seq_len});
  for (size_t c = 0; c < channels.size(); ++c) channels[c].set_weight(weights[c]);
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const Config& config, Env& env) {
  if (config.data.tokenizer.empty()) return nullptr;
  const std::string& path = config.data.tokenizer;
  return Tokenizer::load(env, env.is_folder(path) ? join_path(path, "tokenizer.json") : path);
}

Dataset open_dataset(const Config& config, Env& env, const DatasetOptions& options) {
  const DataConfig& data = config.data;
  if (data.channels.empty())
    throw ConfigError("data.channels: got none, expected at least one channel",
                      "for example: channels = [ {name = \"en\", path = \"data/en\"} ]");
  Dataset dataset;
  dataset.tokenizer = options.tokenizer != nullptr ? options.tokenizer : open_tokenizer(config, env);
  dataset.vocab_size = vocabulary(config, options, dataset.tokenizer.get());
  const auto bytes = dataset.tokenizer == nullptr ? nullptr : std::make_shared<TokenBytes>(dataset.tokenizer);
  const bool best_fit = data.packing == "best-fit";
  dataset.identity =
      fmt::format("data: seq_len={} valid_fraction={} tokenizer={}{}\n", data.seq_len, data.valid_fraction,
                  dataset.tokenizer == nullptr ? "none" : tokenizer_hash(*dataset.tokenizer),
                  best_fit ? " packing=best-fit" : "");
  const auto objective = make_objective(config, dataset.tokenizer.get(), dataset.vocab_size);
  if (objective != nullptr) dataset.identity += fmt::format("objective: {}\n", objective->identity());
  TokenFiles files(env, config, options, dataset);
  std::set<std::string> names;
  std::vector<std::string> contents;  // of each channel
  for (const ChannelConfig& channel : data.channels) {
    if (!names.insert(channel.name).second)
      throw ConfigError(
          fmt::format("data.channels: two are named '{}', expected different names", channel.name));
    const ChannelOptions of_channel{channel.name,       channel.weight,     data.seq_len, data.valid_fraction,
                                    dataset.vocab_size, data.document_mask, best_fit,     objective};
    const auto valid = channel.valid_path.empty() ? nullptr : files.open(channel, channel.valid_path);
    if (channel.is_stream()) {
      dataset.channels.emplace_back(of_channel, open_spool(env, config, channel, options, dataset), bytes,
                                    valid);
      contents.push_back(fmt::format("without end, windows of {}", data.shuffle_window));
    } else {
      const auto tokens = files.open(channel, channel.path);
      dataset.channels.emplace_back(of_channel, tokens, bytes, valid);
      contents.push_back(fmt::format("tokens={} content={}", tokens->num_tokens(), tokens->quick_hash()));
    }
    if (valid != nullptr)
      contents.back() +=
          fmt::format(" valid_tokens={} valid_content={}", valid->num_tokens(), valid->quick_hash());
  }
  files.check_text_key();
  set_weights(config, options.steps > 0 ? options.steps : config.train.steps, dataset.channels);
  for (size_t c = 0; c < contents.size(); ++c)
    dataset.identity += fmt::format("channel '{}': weight={} {}\n", dataset.channels[c].name(),
                                    dataset.channels[c].weight(), contents[c]);
  return dataset;
}

int64_t Dataset::num_train_tokens() const {
  int64_t total = 0;
  for (const Channel& channel : channels) total += channel.num_train_tokens();
  return total;
}

}  // namespace athanor::data
