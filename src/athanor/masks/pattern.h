// Who attends to whom, by name: terms that compose, for all layers and heads or for some.
//
//   const AttentionPattern pattern = AttentionPattern::parse("heads 0-5: causal + band:256; heads 6-7: causal + dilated:128,2");
//   pattern.check_fits({.length = 4096, .layers = 12, .heads = 8});            // ConfigError where it does not
//   const AttentionMask mask = mask_of(pattern, {.positions = {{{0, 4096}}, {{0, 4096}}}, .length = 4096, .heads = 8}, /*layer=*/0);
//
// A pattern is sections joined by ';', each of terms joined by '+'. A pair of a query and a key is seen if it satisfies all
// terms that limit (causal, prefix:p, chunk:c, documents:l1,l2,...) and at least one of those that show (full, band:w,
// window:W, dilated:w,d, global:n[,m], block:b, block_band:b,m, random:r[,b], strided:s, fixed:s,c); without any that shows,
// all pairs are shown. kinds/term_kind.h has them as a table, docs/attention.md explains them. A section may begin with
// `layers 0-5` and `heads 0,2,5-7` and a ':'; the first one that fits a layer and a head is theirs.
//
// A mask is of whole sequences or of parts of them (positions in runs), of all heads or of some: every layout has the rows and
// columns of one mask. What `random` draws has an address: seed, layer, head, block of queries, block of keys. The seed is 0
// by default, as the pattern belongs to the model and stays the same in runs with other seeds.
// Source: Longformer (Beltagy et al., 2020), BigBird (Zaheer et al., 2020), ETC (Ainslie et al., 2020), Sparse Transformer
// (Child et al., 2019); composed as in FlexAttention (Dong et al., 2024).
//
// Errors: ConfigError. Thread rule: a value; reading is free of locks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/masks/layer_mask.h"
#include "athanor/masks/section.h"

namespace athanor::masks {

// Of a model: what a pattern must fit.
struct PatternShape {
  int64_t length = 0;  // positions of a sequence
  int64_t layers = 1, heads = 1;
};

// The rules of some heads over a whole sequence. Heads that see the same pairs have one between them.
struct HeadRules {
  std::vector<std::unique_ptr<const MaskRule>> rules;
  std::vector<int32_t> rule_of_head;
};

class AttentionPattern {
 public:
  static AttentionPattern parse(std::string_view text);

  // In one spelling: terms in the order of the table, single spaces, what is said by default left out.
  const std::string& text() const { return text_; }
  // No query sees a later key, whatever the length. It follows from the terms: causal, or nothing shown but windows.
  bool is_causal() const;
  bool is_plain_causal() const;  // every query sees all keys up to its own
  bool has_documents() const;    // names their lengths, which are for pictures and tests

  // One more than the largest number that it names; 0: none.
  int64_t layers_named() const;
  int64_t heads_named() const;

  // Every head of every layer has a section and every section some head; no term is wider than the sequence; each query sees
  // a key.
  void check_fits(const PatternShape& shape, uint64_t seed = 0) const;

  const PatternSection& section_of(int64_t layer, int64_t head) const;
  HeadRules rules(int64_t length, int64_t layer, int64_t first_head, int64_t heads, uint64_t seed = 0) const;

 private:
  int find(int64_t layer, int64_t head) const;  // -1: no section
  void check_selectors(const PatternShape& shape) const;
  void check_queries(int64_t length, int64_t layer, int64_t head, uint64_t seed) const;

  std::vector<PatternSection> sections_;
  std::string text_;
};

AttentionMask mask_of(const AttentionPattern& pattern, const MaskRequest& request, int64_t layer,
                      uint64_t seed = 0);

}  // namespace athanor::masks
