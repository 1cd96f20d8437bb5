#include "athanor/data/instructions/masked_ids.h"

#include "athanor/base/check.h"
#include "athanor/text/decoders/stream_decoder.h"

namespace athanor::data::instructions {
namespace {

// The offset of the first byte of each token; inside of a character that several tokens make, that of the character.
std::vector<size_t> token_begins(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                 const std::string& text) {
  std::vector<size_t> begins;
  begins.reserve(ids.size());
  StreamDecoder decoder(tokenizer, {});
  std::string decoded;
  for (const int32_t id : ids) {
    begins.push_back(decoded.size());
    decoded += decoder.add(id);
  }
  decoded += decoder.finish();
  const auto differs = std::ranges::mismatch(decoded, text);
  check(decoded == text,
        "the tokenizer changes the text of a conversation: its ids decode to something else from byte {} on, "
        "so that "
        "answers cannot be told from prompts",
        differs.in1 - decoded.begin());
  return begins;
}

}  // namespace

MaskedIds mask_answers(const Tokenizer& tokenizer, const Rendered& rendered) {
  MaskedIds masked;
  masked.ids = tokenizer.encode(rendered.text, rendered.ordinary);
  masked.text_bytes = static_cast<int64_t>(rendered.text.size());
  for (const size_t begin : token_begins(tokenizer, masked.ids, rendered.text))
    masked.loss_mask.push_back(text::touches(rendered.answers, begin, begin + 1) ? 1 : 0);
  return masked;
}

}  // namespace athanor::data::instructions
