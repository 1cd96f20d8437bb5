// Unigram language model (Kudo 2018): of all ways to split a word into pieces, takes the one with the largest sum of
// log probabilities (Viterbi).
//
//   UnigramModel model(std::move(vocabulary), scores, {.unk = 0});
//
// A character that no piece covers costs 10 more than the worst piece; a run of such characters is one unknown piece.
// Thread rule: const methods from any thread.
#pragma once

#include <array>
#include <cstdint>
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
};

class UnigramModel final : public Model {
 public:
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool takes_any_byte() const override { return has_all_fallbacks_; }

 private:
  void append_piece(std::string_view piece, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  UnigramOptions options_;
  double unk_score_ = 0;
  Trie pieces_;  // to ids
  std::array<int32_t, 256> fallback_ids_{};
  bool has_all_fallbacks_ = false;
};

}  // namespace athanor::text::models
