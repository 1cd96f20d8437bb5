// Unigram: special tokens, <unk>, the 256 bytes for characters outside the alphabet, then the pieces, best
// first. Text is cut by a word pattern and keeps its spaces, so that any bytes come back exactly.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/text/trainers/train_types.h"
#include "athanor/text/trainers/unigram_trainer.h"

namespace athanor::text::trainers {
namespace {

constexpr const char* kUnigramUnk = "<unk>";
// Below the worst piece: no cut of ordinary text may use a special token or a byte's name.
constexpr double kReservedPenalty = 1000;

}  // namespace

std::string train_unigram(const WordCounts& counts, const TokenizerTrainerOptions& options) {
  std::vector<std::string> reserved = options.special_tokens;
  if (std::ranges::count(reserved, kUnigramUnk) == 0) reserved.emplace_back(kUnigramUnk);
  const TokenIds special = number(reserved);
  for (const std::string& token : byte_tokens()) reserved.push_back(token);
  const int64_t room = room_for_alphabet(options, static_cast<int64_t>(reserved.size()));
  const Alphabet alphabet = alphabet_of(counts, options, room);
  std::vector<CountedWord> words;
  counts.for_each([&](std::string_view word, int64_t count) {
    alphabet.for_each_run(word, [&](std::string_view run) { words.push_back({std::string(run), count}); });
  });
  UnigramTrainer trainer(std::move(words), room, options.num_threads,
                         options.max_token_length > 0 ? options.max_token_length : kMaxPieceChars);
  const std::vector<ScoredPiece> pieces = trainer.run([&](int64_t left) {
    if (options.progress) options.progress(std::min(room, left), left);
  });
  OrderedJson vocab = OrderedJson::array();
  const double low = (pieces.empty() ? 0 : pieces.back().score) - kReservedPenalty;
  for (const std::string& token : reserved) vocab.push_back(OrderedJson::array({token, low}));
  for (const ScoredPiece& piece : pieces) {
    if (std::ranges::count(reserved, piece.text) > 0) continue;
    vocab.push_back(OrderedJson::array({piece.text, piece.score}));
  }
  OrderedJson file = tokenizer_json(special);
  file["normalizer"] = normalizer_of(options);
  file["pre_tokenizer"] = split_json(regex_of(pattern_named(options.pattern)));
  file["decoder"] = byte_fallback_decoder_json();
  int64_t unk_id = 0;
  for (const auto& [token, id] : special)
    if (token == kUnigramUnk) unk_id = id;
  file["model"] = {
      {"type", "Unigram"}, {"unk_id", unk_id}, {"byte_fallback", true}, {"vocab", std::move(vocab)}};
  return to_text(file);
}

}  // namespace athanor::text::trainers
