// BPE over characters: special tokens, the 256 bytes as <0x00> ... for characters that are not in the
// alphabet, the alphabet, merges. Text is cut by a word pattern and keeps its spaces, so that any bytes come
// back exactly.
#include <nlohmann/json.hpp>

#include "athanor/text/trainers/train_types.h"
#include "athanor/text/unicode.h"

namespace athanor::text::trainers {

std::string train_bpe(const WordCounts& words, const TokenizerTrainerOptions& options) {
  const int64_t vocab_size = wanted_vocab_size(options);
  std::vector<std::string> tokens = options.special_tokens;
  for (const std::string& token : byte_tokens()) tokens.push_back(token);
  const Alphabet alphabet =
      alphabet_of(words, options, room_for_alphabet(options, static_cast<int64_t>(tokens.size())));
  const std::vector<std::string> reserved = tokens;
  FlatMap<int32_t> ids;
  for (const uint32_t c : alphabet.chars()) {
    ids[c] = static_cast<int32_t>(tokens.size());
    append_utf8(tokens.emplace_back(), c);
    check_not_special(tokens.back(), options);
  }
  BpeTrainer trainer(std::move(tokens),
                     {.forbidden = reserved, .max_token_length = options.max_token_length});
  std::vector<int32_t> symbols;
  words.for_each([&](std::string_view word, int64_t count) {
    alphabet.for_each_run(word, [&](std::string_view run) {
      symbols.clear();
      split_chars(run, [&](std::string_view c) { symbols.push_back(*ids.find(decode_utf8(c, 0).value)); });
      trainer.add_word(symbols, count);
    });
  });
  trainer.run(vocab_size, options.min_frequency, [&](int64_t done) {
    if (options.progress) options.progress(done, vocab_size);
  });
  OrderedJson file = tokenizer_json(number(options.special_tokens));
  file["normalizer"] = normalizer_of(options);
  file["pre_tokenizer"] = split_json(regex_of(pattern_named(options.pattern)));
  file["decoder"] = byte_fallback_decoder_json();
  file["model"] = bpe_json(number(trainer.tokens()), text_merges(trainer));
  file["model"]["byte_fallback"] = true;
  return to_text(file);
}

}  // namespace athanor::text::trainers
