// Text to token ids and back, as a Hugging Face tokenizer.json describes it.
//
//   auto tokenizer = Tokenizer::load(system_env(), "tokenizer.json");
//   std::vector<int32_t> ids = tokenizer->encode("Hello world");   // no special tokens added
//   std::string text = tokenizer->decode(ids);                     // the same bytes
//
// Thread rule: const methods from any thread. Errors: a bad file is an Error naming the path and the key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/text/special_tokens.h"

namespace athanor {

class Tokenizer {
 public:
  // A file called tokenizer.json is read with what lies beside it (tokenizer_files.h), one with another name alone.
  static std::shared_ptr<const Tokenizer> load(Env& env, const std::string& path);
  // `files`: what lay beside it.
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, const std::string& name,
                                                TokenizerFiles files = {});

  virtual ~Tokenizer() = default;
  // Ids of the text; ids of added (special) tokens where they stand in the text, as in HF.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The same, treating special tokens in the text as ordinary text: for documents of a corpus, so that a
  // document cannot forge an end-of-text.
  virtual std::vector<int32_t> encode_ordinary(std::string_view text) const = 0;
  // A document as it stands in a corpus: what begins a text, its ordinary ids, the end of text.
  std::vector<int32_t> encode_document(std::string_view text) const;
  // A text to continue: what begins a text, unless it stands there already, and encode().
  std::vector<int32_t> encode_prompt(std::string_view text) const;
  // The bytes of the ids, special tokens included as their text. An id outside the vocabulary is an Error.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  virtual int32_t vocab_size() const = 0;  // largest id + 1, added tokens included
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::string token_of(
      int32_t id) const = 0;  // as written in the vocabulary; empty for an id left free

  virtual const std::string& json() const = 0;      // the tokenizer.json it came from, byte for byte
  virtual const TokenizerFiles& files() const = 0;  // that one and those beside it
  virtual const SpecialTokens& special_tokens() const = 0;
  // The token that ends a document; none where no file names one.
  std::optional<int32_t> end_of_text() const { return special_tokens().end; }
};

}  // namespace athanor
