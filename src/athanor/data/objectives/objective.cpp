#include "athanor/data/objectives/objective.h"

#include <charconv>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/data/objectives/masked_tokens.h"
#include "athanor/text/json_node.h"

namespace athanor::data {
namespace {

std::optional<int32_t> number(const std::string& text) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || end != text.data() + text.size() || id < 0) return std::nullopt;
  return id;
}

int32_t mask_id(const DataConfig& config, const Tokenizer* tokenizer, int64_t vocab_size) {
  const std::string& name = config.mask_token;
  if (tokenizer == nullptr) {
    const auto id = number(name);
    if (!id || *id >= vocab_size)
      throw ConfigError(
          fmt::format("data.mask_token: got '{}', expected an id below the vocabulary of {} where "
                      "data.tokenizer is not set",
                      printable(name), vocab_size));
    return *id;
  }
  if (!name.empty()) {
    if (const auto id = tokenizer->id_of(name)) return *id;
    throw ConfigError(fmt::format("data.mask_token: got '{}', which the tokenizer lacks", printable(name)));
  }
  for (const char* usual : {"[MASK]", "<mask>", "<|mask|>"})
    if (const auto id = tokenizer->id_of(usual)) return *id;
  throw ConfigError("data.tokenizer: it has no token to mask others with, expected [MASK] or <mask>",
                    "athanor tokenizer train --special '[MASK]' makes one; data.mask_token names another");
}

std::vector<bool> special_tokens(const Tokenizer* tokenizer, int32_t mask) {
  std::vector<bool> special;
  const auto add = [&](int64_t id) {
    if (std::ssize(special) <= id) special.resize(static_cast<size_t>(id) + 1, false);
    special[static_cast<size_t>(id)] = true;
  };
  add(mask);
  if (tokenizer == nullptr) return special;
  const SpecialTokens& known = tokenizer->special_tokens();
  for (const auto& id : {known.begin, known.end})
    if (id) add(*id);
  for (const int32_t id : known.before) add(id);
  for (const int32_t id : known.stops) add(id);
  const text::JsonFile file("tokenizer.json", tokenizer->json());
  if (const auto added = file.root().find("added_tokens"))
    for (const text::JsonNode& token : added->items())
      if (token.boolean("special", false)) add(token.at("id").integer());
  return special;
}

}  // namespace

std::shared_ptr<const Objective> make_objective(const Config& config, const Tokenizer* tokenizer,
                                                int64_t vocab_size) {
  if (!masks_tokens(config)) return nullptr;
  const DataConfig& data = config.data;
  const int32_t mask = mask_id(data, tokenizer, vocab_size);
  if (data.mask_whole_words && tokenizer == nullptr)
    throw ConfigError(
        "data.mask_whole_words: got true, expected data.tokenizer beside it: it tells what a word is");
  return std::make_shared<MaskedTokens>(
      MaskedTokensOptions{
          .mask_id = mask,
          .vocab_size = tokenizer == nullptr ? vocab_size : tokenizer->vocab_size(),
          .rate = data.mask_rate,
          .random_rate = data.mask_random_rate,
          .keep_rate = data.mask_keep_rate,
          .special = special_tokens(tokenizer, mask),
          .continues = data.mask_whole_words ? continuing_tokens(*tokenizer) : std::vector<bool>()},
      config.train.seed);
}

}  // namespace athanor::data
