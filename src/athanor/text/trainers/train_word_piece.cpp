// WordPiece as BERT has it: words without spaces, pieces inside a word written with ##. Merges are learned as
// for BPE and then forgotten: the model takes the longest piece that fits.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/trainers/train_types.h"
#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

constexpr const char* kWordPieceUnk = "[UNK]";
constexpr const char* kPrefix = "##";

OrderedJson pre_tokenizer_json() {
  return {{"type", "BertPreTokenizer"}};
}

// The characters that stand behind the first of some word.
std::set<uint32_t> inner_chars(const WordCounts& words, const Alphabet& alphabet) {
  std::set<uint32_t> chars;
  words.for_each([&](std::string_view word, int64_t) {
    alphabet.for_each_run(word, [&](std::string_view run) {
      split_chars(run, [&](std::string_view c) {
        if (c.data() != word.data()) chars.insert(decode_utf8(c, 0).value);
      });
    });
  });
  return chars;
}

}  // namespace

WordSplitter word_piece_splitter() {
  const JsonFile pre_tokenizer_file("WordPiece", pre_tokenizer_json().dump());
  const std::shared_ptr<const PreTokenizer> pre_tokenizer = parse_pre_tokenizer(pre_tokenizer_file.root());
  return [pre_tokenizer](std::string_view text, const WordSink& put) {
    pre_tokenizer->split({.text = text, .at_start = true}, [&](Piece word) { put(word.text); });
  };
}

OrderedJson word_piece_normalizer() {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", true},
          {"strip_accents", false},
          {"lowercase", false}};
}

std::string train_word_piece(const WordCounts& words, const TokenizerTrainerOptions& options) {
  const int64_t vocab_size = wanted_vocab_size(options);
  std::vector<std::string> tokens = options.special_tokens;
  if (std::ranges::count(tokens, kWordPieceUnk) == 0) tokens.emplace_back(kWordPieceUnk);
  const std::vector<std::string> reserved = tokens;
  // A character may be there twice: as the first of a word, and with the prefix if any word has it inside.
  const Alphabet alphabet =
      alphabet_of(words, options, room_for_alphabet(options, static_cast<int64_t>(tokens.size())) / 2);
  FlatMap<int32_t> first, inner;
  const auto add = [&](const std::string& prefix, uint32_t c) {
    (prefix.empty() ? first : inner)[c] = static_cast<int32_t>(tokens.size());
    append_utf8(tokens.emplace_back(prefix), c);
    check_not_special(tokens.back(), options);
  };
  const std::set<uint32_t> seen_inside = inner_chars(words, alphabet);
  for (const uint32_t c : alphabet.chars()) add("", c);
  for (const uint32_t c : alphabet.chars())
    if (seen_inside.contains(c)) add(kPrefix, c);
  BpeTrainer trainer(std::move(tokens), {.continuing_subword_prefix = kPrefix,
                                         .forbidden = reserved,
                                         .max_token_length = options.max_token_length});
  std::vector<int32_t> symbols;
  words.for_each([&](std::string_view word, int64_t count) {
    alphabet.for_each_run(word, [&](std::string_view run) {
      symbols.clear();
      split_chars(run, [&](std::string_view c) {
        const bool is_first = c.data() == word.data();
        symbols.push_back(*(is_first ? first : inner).find(decode_utf8(c, 0).value));
      });
      trainer.add_word(symbols, count);
    });
  });
  trainer.run(vocab_size, options.min_frequency, [&](int64_t done) {
    if (options.progress) options.progress(done, vocab_size);
  });
  OrderedJson file = tokenizer_json(number(reserved));
  file["normalizer"] = normalizer_of(options);
  file["pre_tokenizer"] = pre_tokenizer_json();
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", kPrefix}, {"cleanup", false}};
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", kWordPieceUnk},
                   {"continuing_subword_prefix", kPrefix},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocab_json(number(trainer.tokens()))}};
  return to_text(file);
}

}  // namespace athanor::text::trainers
