// Byte-level BPE: special tokens, the 256 bytes in order of their characters, then merges.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/byte_level.h"
#include "athanor/text/trainers/train_types.h"
#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

std::vector<uint32_t> alphabet() {
  std::vector<uint32_t> chars;
  for (int byte = 0; byte < 256; ++byte) chars.push_back(char_of_byte(static_cast<uint8_t>(byte)));
  std::ranges::sort(chars);
  return chars;
}

}  // namespace

std::string train_byte_bpe(const WordCounts& words, const TokenizerTrainerOptions& options) {
  const int64_t vocab_size = wanted_vocab_size(options);
  std::vector<std::string> tokens = options.special_tokens;
  std::array<int32_t, 256> byte_ids{};
  for (const uint32_t c : alphabet()) {
    byte_ids[*byte_of_char(c)] = static_cast<int32_t>(tokens.size());
    append_utf8(tokens.emplace_back(), c);
    check_not_special(tokens.back(), options);
  }
  if (vocab_size < static_cast<int64_t>(tokens.size()))
    throw ConfigError(fmt::format("vocab_size: got {}, expected at least {}: 256 bytes and {} special tokens",
                                  vocab_size, tokens.size(), options.special_tokens.size()));
  BpeTrainer trainer(std::move(tokens),
                     {.forbidden = options.special_tokens, .max_token_length = options.max_token_length});
  std::vector<int32_t> symbols;
  words.for_each([&](std::string_view word, int64_t count) {
    symbols.clear();
    for (const char byte : word) symbols.push_back(byte_ids[static_cast<uint8_t>(byte)]);
    trainer.add_word(symbols, count);
  });
  trainer.run(vocab_size, options.min_frequency, [&](int64_t done) {
    if (options.progress) options.progress(done, vocab_size);
  });

  OrderedJson file = tokenizer_json(number(options.special_tokens));
  file["normalizer"] = normalizer_of(options);
  file.update(byte_level_json(regex_of(pattern_named(options.pattern))));
  file["model"] = bpe_json(number(trainer.tokens()), text_merges(trainer));
  return to_text(file);
}

}  // namespace athanor::text::trainers
