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
#include "athanor/text/byte_span.h"
#include "athanor/text/encoding.h"
#include "athanor/text/special_tokens.h"

namespace athanor::text {

class Tokenizer {
 public:
  // A tokenizer.json, or a SentencePiece .model. A file called tokenizer.json is read with the files beside it (tokenizer_files.h), a file of another name alone.
  static std::shared_ptr<const Tokenizer> load(Env& env, const std::string& path);
  // `files`: the files that lay beside the tokenizer.json.
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, const std::string& name,
                                                TokenizerFiles files = {});

  virtual ~Tokenizer() = default;
  // Ids of the text. Added (special) tokens in the text get their ids, as in Hugging Face's tokenizers.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The same, treating special tokens in the text as ordinary text: for documents of a corpus, so that a
  // document cannot forge an end-of-text.
  virtual std::vector<int32_t> encode_ordinary(std::string_view text) const = 0;
  // Ids of the text, treating special tokens as ordinary text where they touch the bytes of `ordinary` (in order): for
  // text of which others wrote a part. Where they spelled no special token the ids are those of encode().
  virtual std::vector<int32_t> encode(std::string_view text, std::span<const ByteSpan> ordinary) const = 0;
  // The ids with their places in the text. No special tokens are added.
  virtual Encoding encode_with_offsets(std::string_view text, EncodeOptions options = {}) const = 0;
  // One text or a pair with the special tokens that tokenizer.json's post_processor puts around them.
  virtual Encoding with_special_tokens(const Encoding& first,
                                       const std::optional<Encoding>& second = {}) const = 0;
  // A document of a corpus: special_tokens().before, encode_ordinary(), the end-of-text token.
  std::vector<int32_t> encode_document(std::string_view text) const;
  // A prompt: special_tokens().before, unless the text begins with it, and encode().
  std::vector<int32_t> encode_prompt(std::string_view text) const;
  // The bytes of the ids, special tokens included as their text. An id outside the vocabulary is an Error.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  virtual int32_t vocab_size() const = 0;  // largest id + 1, added tokens included
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::string token_of(
      int32_t id) const = 0;  // as written in the vocabulary; empty for an id that is not used

  // What a user should know, a sentence each: that characters without a token are left out.
  virtual std::vector<std::string> warnings() const = 0;
  virtual const std::string& json() const = 0;      // the tokenizer.json it came from, byte for byte
  virtual const TokenizerFiles& files() const = 0;  // tokenizer.json and the files beside it
  virtual const SpecialTokens& special_tokens() const = 0;
  // The token that ends a document; none if no file names one.
  std::optional<int32_t> end_of_text() const { return special_tokens().end; }
};

}  // namespace athanor::text

namespace athanor {
using text::Tokenizer;
}  // namespace athanor
