#include "athanor/corpus/dedup/words.h"

#include <utility>

#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {
namespace {

constexpr uint8_t kLeadOfThree = 0xE0;  // the first byte of characters of three bytes and more

struct CodeRange {
  uint32_t first, last;
};

// Besides ideographs. In canonical decomposition, so Hangul is not among them: it is written with spaces.
constexpr CodeRange kUnspaced[] = {
    {0x0E00, 0x0EFF},    // Thai, Lao
    {0x1000, 0x109F},    // Burmese
    {0x1780, 0x17FF},    // Khmer
    {0x3005, 0x3007},    // marks of repetition, ideographic zero
    {0x3041, 0x30FF},    // kana
    {0x31F0, 0x31FF},    // more katakana
    {0xAA60, 0xAA7F},    // more Burmese
    {0xFF66, 0xFF9F},    // katakana of half width
    {0x30000, 0x323AF},  // ideographs added since Unicode 13
};

// False where another copy is needed: characters that are words, spaces in a row.
bool find_words(const std::string& text, std::vector<uint32_t>& begins) {
  bool behind_space = true;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte == ' ') {
      if (behind_space) return false;
      behind_space = true;
      ++at;
      continue;
    }
    if (behind_space) begins.push_back(static_cast<uint32_t>(at));
    behind_space = false;
    if (byte < kLeadOfThree) {
      ++at;
      continue;
    }
    const text::CodePoint c = text::decode_utf8(text, at);
    if (is_word_by_itself(c.value)) return false;
    at += c.size;
  }
  return !behind_space || text.empty();
}

}  // namespace

bool is_word_by_itself(uint32_t c) {
  if (c < kUnspaced[0].first) return false;
  if (text::is_chinese(c)) return true;
  for (const CodeRange& range : kUnspaced)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

Words split_words(std::string simplified) {
  Words words;
  if (find_words(simplified, words.begins)) {
    words.text = std::move(simplified);
    return words;
  }
  words.begins.clear();
  words.text.reserve(simplified.size() + simplified.size() / 3);
  bool begins = true;
  for (size_t at = 0; at < simplified.size();) {
    const text::CodePoint c = text::decode_utf8(simplified, at);
    const bool alone = c.value != text::kInvalidByte && is_word_by_itself(c.value);
    if (c.value == ' ') {
      begins = true;
    } else {
      if (begins || alone) {
        if (!words.text.empty()) words.text += ' ';
        words.begins.push_back(static_cast<uint32_t>(words.text.size()));
      }
      words.text.append(simplified, at, c.size);
      begins = alone;
    }
    at += c.size;
  }
  return words;
}

}  // namespace athanor::corpus::dedup
