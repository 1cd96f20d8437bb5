// Masked language modelling: the model fills in tokens that were taken out of a sequence, with the text on both sides in
// view (Devlin et al., BERT, 2019; masks drawn anew in each epoch as in Liu et al., RoBERTa, 2019).
//
//   const MaskedTokens objective({.mask_id = 103, .vocab_size = 30522, .special = ids_of_special_tokens}, /*seed=*/1);
//   objective.apply(place, row);       // row.targets: the token that was there where one was chosen, else kNoTarget
//
// round(rate * n) of the n places that hold no special token are chosen, at least one: all choices of that many are equally
// likely. Of the chosen ones a share `random_rate` becomes any token of the vocabulary, a share `keep_rate` stays, the
// others become the mask. With whole words the tokens of a word are chosen together: words are taken in a random order,
// and one that does not fit into what is left is passed over.
// Thread rule, errors: as Objective.
#pragma once

#include <vector>

#include "athanor/data/objectives/objective.h"

namespace athanor::data {

struct MaskedTokensOptions {
  int32_t mask_id = 0;
  int64_t vocab_size = 0;  // of the tokenizer: what random tokens are drawn from
  double rate = 0.15, random_rate = 0.1, keep_rate = 0.1;
  std::vector<bool> special = {};  // by id: never chosen; ids past its end are not special
  std::vector<bool> continues =
      {};  // by id: the token goes on with the word before it; empty: no whole words
};

class MaskedTokens final : public Objective {
 public:
  MaskedTokens(MaskedTokensOptions options, uint64_t seed) : options_(std::move(options)), seed_(seed) {}
  void apply(const SequencePlace& place, const SequenceRow& row) const override;
  std::string identity() const override;

 private:
  bool is_special(int32_t id) const;
  bool continues(int32_t id) const;

  MaskedTokensOptions options_;
  uint64_t seed_;
};

// By id, whether a token goes on with the word before it: "##ing" of WordPiece, and what has no space before it in byte-level
// and SentencePiece vocabularies.
std::vector<bool> continuing_tokens(const Tokenizer& tokenizer);

}  // namespace athanor::data
