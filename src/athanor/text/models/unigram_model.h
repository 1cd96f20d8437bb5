// Unigram language model (Kudo 2018): of all ways to split a word into pieces, takes the one with the largest sum of
// log probabilities (Viterbi).
//
//   UnigramModel model(std::move(vocabulary), scores, {.unk = 0});
//
// A character that no piece covers costs 10 more than the worst piece; a run of such characters is one unknown piece.
// SentencePiece adds scores as 32-bit numbers and gives its user's own pieces a bonus by which they always win; with
// like_sentencepiece this model does, too, and then its ids are those of SentencePiece on a text of any length.
// Thread rule: const methods from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/text/models/model.h"
#include "athanor/text/models/trie.h"

namespace athanor::text::models {

struct UnigramOptions {
  std::string name = "unigram";  // for messages
  std::optional<int32_t> unk = {};
  bool byte_fallback = false;
  bool like_sentencepiece = false;
  std::vector<int32_t> not_in_text = {};  // pieces that no text holds: control symbols, bytes
  std::vector<int32_t> own_pieces = {};   // of SentencePiece's user
};

class UnigramModel final : public Model {
 public:
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override;
  void trace_word(std::string_view word, std::vector<WordToken>& tokens) const override;
  size_t num_bytes_of(int32_t id) const override;
  std::string shown(int32_t id, std::string_view word_part) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool takes_any_byte() const override { return has_all_fallbacks_; }

 private:
  struct Node;
  template <typename Score>
  void find_best(std::string_view word, std::vector<Node>& best) const;
  // The pieces of the word in order, runs of unknown characters joined; put(begin, end).
  void cut(std::string_view word, const std::function<void(size_t, size_t)>& put) const;
  // The ids of a piece: of itself, of its bytes, or of the unknown piece.
  void append_piece(std::string_view piece, std::vector<int32_t>& ids) const;
  std::optional<int32_t> find_piece(std::string_view piece) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;            // by id
  std::vector<bool> is_own_, is_hidden_;  // by id
  double highest_ = 0;
  UnigramOptions options_;
  double unk_score_ = 0;
  Trie pieces_;  // to ids
  std::array<int32_t, 256> fallback_ids_{};
  bool has_all_fallbacks_ = false;
};

}  // namespace athanor::text::models
