#include "athanor/text/trainers/train_types.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"

namespace athanor::text::trainers {
namespace {
constexpr int64_t kDefaultVocabSize = 30000;
}

int64_t wanted_vocab_size(const TokenizerTrainerOptions& options) {
  return options.vocab_size > 0 ? options.vocab_size : kDefaultVocabSize;
}

int64_t room_for_alphabet(const TokenizerTrainerOptions& options, int64_t num_reserved) {
  // Two, since WordPiece has every character twice.
  if (wanted_vocab_size(options) < num_reserved + 2)
    throw ConfigError(fmt::format("vocab_size: got {}, expected at least {}: {} tokens are fixed for type {}",
                                  wanted_vocab_size(options), num_reserved + 2, num_reserved, options.type));
  return wanted_vocab_size(options) - num_reserved;
}

Alphabet alphabet_of(const WordCounts& words, const TokenizerTrainerOptions& options, int64_t room) {
  const int64_t most = options.max_alphabet > 0 ? std::min(room, options.max_alphabet) : room;
  return {words, most, options.coverage > 0 ? options.coverage : kDefaultCoverage};
}

void check_not_special(const std::string& token, const TokenizerTrainerOptions& options) {
  if (std::ranges::count(options.special_tokens, token) > 0)
    throw ConfigError(fmt::format("special token: '{}' is a token of type {} already", token, options.type));
}

std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  return tokens;
}

TokenIds number(const std::vector<std::string>& tokens) {
  TokenIds ids;
  for (const std::string& token : tokens) ids.emplace_back(token, ids.size());
  return ids;
}

std::vector<std::pair<std::string, std::string>> text_merges(const BpeTrainer& trainer) {
  std::vector<std::pair<std::string, std::string>> merges;
  const auto text_of = [&](int32_t id) { return trainer.tokens()[static_cast<size_t>(id)]; };
  for (const auto& [left, right] : trainer.merges()) merges.emplace_back(text_of(left), text_of(right));
  return merges;
}

}  // namespace athanor::text::trainers
