// The tokenizer that a tokenizer.json describes: added tokens are found in the text, the rest is normalized and
// pre-tokenized into words, and the model encodes each word. Tokenizer::parse makes it.
// Thread rule: as Tokenizer.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/text/added_tokens.h"
#include "athanor/text/decoders/decoder.h"
#include "athanor/text/models/model.h"
#include "athanor/text/models/word_cache.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/post_processor.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/tokenizer.h"

namespace athanor::text {

struct PipelineParts {
  TokenizerFiles files;
  SpecialTokens special_tokens;
  std::string name;
  std::unique_ptr<Normalizer> normalizer;       // may be absent
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be absent
  std::unique_ptr<Model> model;
  std::unique_ptr<Decoder> decoder;  // may be absent
  PostProcessor post_processor;
  std::vector<AddedToken> added_tokens;
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_ordinary(std::string_view text) const override;
  std::vector<int32_t> encode(std::string_view text, std::span<const ByteSpan> ordinary) const override;
  Encoding encode_with_offsets(std::string_view text, EncodeOptions options) const override;
  Encoding with_special_tokens(const Encoding& first, const std::optional<Encoding>& second) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  int32_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string token_of(int32_t id) const override;
  std::vector<std::string> warnings() const override { return parts_.model->warnings(); }
  const std::string& json() const override { return parts_.files.at(kTokenizerFile); }
  const TokenizerFiles& files() const override { return parts_.files; }
  const SpecialTokens& special_tokens() const override { return parts_.special_tokens; }

 private:
  // The added tokens to look for: in the raw text, and in the normalized text.
  struct Matchers {
    AddedTokenMatcher raw, normalized;
  };
  Matchers make_matchers(bool with_special) const;
  // Where the tokens go; ranges and tokens where they are asked for.
  struct Output {
    std::vector<int32_t>& ids;
    std::vector<TextRange>* ranges = nullptr;
    std::vector<std::string>* tokens = nullptr;
  };
  static void put_added(int32_t id, Piece segment, const Output& output);
  void encode_with(const Matchers& matchers, std::string_view text, std::span<const ByteSpan> ordinary,
                   const Output& output) const;
  void encode_segment(const Matchers& matchers, Piece segment, WordCache& cache, const Output& output) const;
  void encode_piece(Piece piece, WordCache& cache, const Output& output) const;
  void encode_word(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;
  void trace_word(Piece word, WordCache& cache, const Output& output) const;
  const std::string* find_token(int32_t id) const;
  PipelineParts parts_;
  std::unordered_map<int32_t, const AddedToken*> added_by_id_;
  std::unordered_map<std::string_view, int32_t> added_by_content_;
  bool takes_any_byte_ = false;
  int32_t vocab_size_ = 0;
  std::unique_ptr<const Matchers> all_, ordinary_;

  // Caches that no call uses at the moment. There are as many caches as calls ever ran at the same time.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_caches_;
};

}  // namespace athanor::text
