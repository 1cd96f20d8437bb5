#include "athanor/corpus/filters/normal_words.h"

#include <unicode/uchar.h>

#include "athanor/base/hash.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::filters {

void normal_words(std::string_view body, std::vector<uint64_t>& hashes) {
  hashes.clear();
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    hashes.push_back(hash64(word));
    word.clear();
  };
  for (size_t at = 0; at < body.size();) {
    const auto byte = static_cast<unsigned char>(body[at]);
    if (byte < 0x80) {
      ++at;
      if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9'))
        word.push_back(static_cast<char>(byte));
      else if (byte >= 'A' && byte <= 'Z')
        word.push_back(static_cast<char>(byte - 'A' + 'a'));
      else if (byte == ' ' || (byte >= '\t' && byte <= '\r'))
        end_word();
      continue;
    }
    const athanor::text::CodePoint c = athanor::text::decode_utf8(body, at);
    at += c.size;
    if (c.value == athanor::text::kInvalidByte) continue;
    if (athanor::text::is_chinese(c.value)) {
      end_word();
      athanor::text::append_utf8(word, c.value);
      end_word();
    } else if (athanor::text::is_space(c.value)) {
      end_word();
    } else if (athanor::text::is_letter(c.value) || athanor::text::is_number(c.value) ||
               (U_GET_GC_MASK(static_cast<UChar32>(c.value)) & U_GC_M_MASK) != 0) {
      athanor::text::append_utf8(word, static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c.value))));
    }
  }
  end_word();
}

std::string lower_text(std::string_view body) {
  std::string out;
  out.reserve(body.size());
  for (size_t at = 0; at < body.size();) {
    const char byte = body[at];
    if (static_cast<unsigned char>(byte) < 0x80) {
      out.push_back(byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte);
      ++at;
      continue;
    }
    const athanor::text::CodePoint c = athanor::text::decode_utf8(body, at);
    if (c.value == athanor::text::kInvalidByte)
      out.push_back(byte);
    else
      athanor::text::append_utf8(out, static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c.value))));
    at += c.size;
  }
  return out;
}

}  // namespace athanor::corpus::filters
