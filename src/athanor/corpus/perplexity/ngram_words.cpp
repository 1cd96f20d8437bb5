#include "athanor/corpus/perplexity/ngram_words.h"

#include <unicode/uchar.h>

#include <array>
#include <string>

#include "athanor/text/unicode.h"

namespace athanor::corpus::perplexity {
namespace {

enum class NgramChar : uint8_t { space, line_feed, joined, alone };

NgramChar ngram_char(uint32_t c) {
  if (c == '\n') return NgramChar::line_feed;
  if (c == text::kInvalidByte) return NgramChar::alone;
  if (text::is_space(c)) return NgramChar::space;
  const bool is_kana = c >= 0x3040 && c <= 0x30FF;
  return text::is_word(c) && !is_kana && !text::is_chinese(c) ? NgramChar::joined : NgramChar::alone;
}

struct NgramAscii {
  std::array<NgramChar, 128> kinds;
  NgramAscii() : kinds() {
    for (uint32_t c = 0; c < 128; ++c) kinds[c] = ngram_char(c);
  }
};

}  // namespace

void for_each_ngram_word(std::string_view text, bool lowercase,
                         const std::function<void(std::string_view word)>& take) {
  static const NgramAscii ascii;
  std::string word;
  bool line_has_words = false;
  const auto end_word = [&] {
    if (word.empty()) return;
    take(word);
    line_has_words = true;
    word.clear();
  };
  const auto end_line = [&] {
    end_word();
    if (line_has_words) take(kEndOfLineWord);
    line_has_words = false;
  };
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const text::CodePoint c = byte < 0x80 ? text::CodePoint{byte, 1} : text::decode_utf8(text, at);
    const NgramChar kind = byte < 0x80 ? ascii.kinds[byte] : ngram_char(c.value);
    if (kind != NgramChar::joined) end_word();
    if (kind == NgramChar::line_feed) end_line();
    if (kind == NgramChar::joined || kind == NgramChar::alone) {
      if (!lowercase || c.value == text::kInvalidByte)
        word.append(text.substr(at, c.size));
      else if (byte < 0x80)
        word.push_back(byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : static_cast<char>(byte));
      else
        text::append_utf8(word, static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c.value))));
      if (kind == NgramChar::alone) end_word();
    }
    at += c.size;
  }
  end_line();
}

}  // namespace athanor::corpus::perplexity
