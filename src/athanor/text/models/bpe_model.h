// Byte-pair encoding (Sennrich et al. 2016): a word starts as its characters; the neighbouring pair with the lowest
// merge rank (the leftmost of equal ones) is merged, until no pair has a merge.
//
//   BpeModel model(std::move(vocabulary), {{id_t, id_h}, {id_th, id_e}}, options);
//   model.encode_word("the", ids);
//
// Cost: a word of n characters takes O(n log n), however long. Thread rule: const methods from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/text/flat_map.h"
#include "athanor/text/models/model.h"
#include "athanor/text/models/pair_set.h"
#include "athanor/text/models/safe_cuts.h"
#include "athanor/text/normalized_text.h"
#include "athanor/text/unicode.h"

namespace athanor::text::models {

struct BpeOptions {
  std::string name = "bpe";         // for messages
  std::optional<int32_t> unk = {};  // id of a character that the vocabulary lacks; none: it is left out
  std::string missing_unk = {};     // a name for it that the vocabulary lacks, too: an Error where it is used
  std::string continuing_subword_prefix = {};  // written before every character but a word's first, as "##"
  std::string end_of_word_suffix = {};         // written behind a word's last character, as "</w>"
  bool fuse_unk = false;                       // a run of unknown characters becomes one unk
  bool byte_fallback = false;                  // an unknown character becomes the tokens <0xE4> <0xBD> ...
  bool ignore_merges = false;                  // a word that is in the vocabulary is one token
};

class BpeModel final : public Model {
 public:
  // `merges` are pairs of ids in order of rank; the text of each pair joined must be in the vocabulary.
  BpeModel(Vocabulary vocabulary, const std::vector<std::pair<int32_t, int32_t>>& merges, BpeOptions options);

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override;
  void trace_word(std::string_view word, std::vector<WordToken>& tokens) const override;
  size_t part_end(std::string_view word, size_t at) const override {
    return cuts_ ? cuts_->part_end(word, at) : word.size();
  }
  size_t num_bytes_of(int32_t id) const override {
    return id >= 0 && id < vocabulary_.size() ? num_bytes_[static_cast<size_t>(id)] : 0;
  }
  std::vector<std::string> warnings() const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  // False with a prefix or suffix, which is written around characters, or if the vocabulary lacks the character of a
  // byte.
  bool can_read_raw_bytes() const override {
    return options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty() &&
           has_all_byte_chars_;
  }
  void read_raw_bytes() override;
  bool takes_any_byte() const override { return has_all_fallbacks_; }

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t id = 0;
  };

  void add_merges(const std::vector<std::pair<int32_t, int32_t>>& merges);
  void find_bytes_and_chars();
  void find_cuts(const std::vector<std::pair<int32_t, int32_t>>& merges);
  void count_bytes();
  bool is_affixed() const {
    return !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  }
  const Merge* find_merge(int32_t left, int32_t right) const {
    const uint64_t key = pair_key(left, right);
    return merged_pairs_.may_hold(key) ? merges_.find(key) : nullptr;
  }
  std::optional<int32_t> find_char(std::string_view bytes, uint32_t code_point) const;
  std::optional<int32_t> whole_word(std::string_view word) const;
  // `ranges`, where they are asked for, are the bytes of each symbol.
  void append_symbols(std::string_view word, std::vector<int32_t>& ids, std::vector<TextRange>* ranges) const;
  void append_char(std::string_view word, size_t at, CodePoint c, bool& after_unk, std::vector<int32_t>& ids,
                   std::vector<TextRange>* ranges) const;
  size_t merge_short(int32_t* ids, size_t size) const;
  // Leaves kGone in the place of each symbol that joined the one before it.
  void merge_long(int32_t* ids, size_t size) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  FlatMap<Merge> merges_;
  PairSet merged_pairs_;                  // the keys of merges_
  std::optional<SafeCuts> cuts_;          // none: words are not cut
  std::vector<uint32_t> num_bytes_;       // by id
  std::array<int32_t, 128> ascii_ids_{};  // -1: not in the vocabulary
  FlatMap<int32_t> char_ids_;             // of other code points
  bool raw_bytes_ = false;
  bool has_all_byte_chars_ = true, has_all_fallbacks_ = false;
  std::array<int32_t, 256> byte_ids_{};      // of byte-level characters; -1: not in the vocabulary
  std::array<int32_t, 256> fallback_ids_{};  // of <0x00> ... <0xFF>; -1: not in the vocabulary
};

}  // namespace athanor::text::models
