// Fill-in-the-middle: documents whose middle moves to their end, so that a model learns to write what stands between two texts
// (Bavarian et al. 2022, as StarCoder and Code Llama are trained).
//
//   const FillInTheMiddle fim(tokenizer, {.rate = 0.5, .spm_rate = 0.5});
//   const std::vector<int32_t> ids = fim.encode_document(code);
//
// A share `rate` of the documents is cut in three at two characters, each place as likely as any other:
//   prefix, suffix, middle (PSM)   [before] PRE prefix SUF suffix MID middle [end of text]
//   suffix, prefix, middle (SPM)   [before] PRE SUF suffix MID prefix middle [end of text], a share `spm_rate` of them
// The parts are encoded each on its own. PRE, SUF and MID are the tokenizer's own tokens for this, known by the names of published
// tokenizers. What becomes of a document depends on its text alone, so a document is cut alike in every epoch, run and layout.
//
// Thread rule: const methods from any thread. Errors: ConfigError for a tokenizer without such tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/tokenizer.h"

namespace athanor::data {

struct FillInTheMiddleOptions {
  double rate = 0.5;      // of documents, 0 to 1
  double spm_rate = 0.5;  // of those
};

class FillInTheMiddle {
 public:
  // The tokenizer must outlive it.
  FillInTheMiddle(const Tokenizer& tokenizer, const FillInTheMiddleOptions& options);
  std::vector<int32_t> encode_document(std::string_view text) const;  // valid UTF-8
  // What the ids depend on beside the tokenizer and the text. Part of cache keys.
  std::string identity() const;

 private:
  const Tokenizer& tokenizer_;
  const FillInTheMiddleOptions options_;
  int32_t prefix_ = -1, suffix_ = -1, middle_ = -1;
};

}  // namespace athanor::data
