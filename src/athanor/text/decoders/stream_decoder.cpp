#include "athanor/text/decoders/stream_decoder.h"

#include <algorithm>

namespace athanor::text::decoders {
namespace {

constexpr size_t kContextTokens = 16;
constexpr size_t kMaxWindowTokens = 64;

// The length of `text` without the beginning of a character at its end.
size_t complete_characters(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // inside a character
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt)
    : tokenizer_(tokenizer) {
  start_after(prompt);
}

void StreamDecoder::start_after(std::span<const int32_t> context) {
  window_ = {context.end() - static_cast<std::ptrdiff_t>(std::min(context.size(), kContextTokens)),
             context.end()};
  text_ = shown_ = tokenizer_.decode(window_);
}

std::string StreamDecoder::add(int32_t id) {
  window_.push_back(id);
  text_ = tokenizer_.decode(window_);
  const size_t ready = complete_characters(text_);
  const size_t from = std::min(shown_.size(), text_.size());  // what is out stays out
  std::string piece = ready > from ? text_.substr(from, ready - from) : std::string();
  if (ready > from) shown_ = text_.substr(0, ready);
  if (ready == text_.size() && window_.size() > kMaxWindowTokens) start_after(std::vector<int32_t>(window_));
  return piece;
}

std::string StreamDecoder::finish() {
  const size_t from = std::min(shown_.size(), text_.size());
  shown_ = text_;
  return text_.substr(from);
}

}  // namespace athanor::text::decoders
