#include "athanor/corpus/dedup/simplify.h"

#include "athanor/corpus/dedup/simplify_rules.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::dedup {
namespace {

constexpr uint32_t kBasicPlane = 0x10000;
constexpr uint32_t kReplacement = 0xFFFD;
constexpr size_t kSimplifyChunk = 4096;  // of input, between looks at the room of the output
constexpr size_t kMostGrowth = 3;  // bytes out for a byte in: the most that a canonical decomposition takes
constexpr size_t kMostOfOne = 16;  // bytes of one character's image

// Writes behind `to`, where there is room.
size_t put_utf8(char* text, size_t to, uint32_t c) {
  const auto put = [&](uint32_t byte) { text[to++] = static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < kBasicPlane) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
  return to;
}

std::string trimmed(std::string text, size_t size) {
  while (size > 0 && text[size - 1] == ' ') --size;
  text.resize(size);
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

}  // namespace

Simplifier::Simplifier() : images_(kBasicPlane) {
  for (uint32_t c = 0; c < kBasicPlane; ++c) {
    const uint32_t image = image_of(c);
    images_[c] = static_cast<uint16_t>(image < kBasicPlane ? image : kImageSeveral);
  }
  for (size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = static_cast<char>(images_[c]);
}

std::string Simplifier::simplify(std::string_view text) const {
  std::string out, several;
  size_t to = 0;
  bool behind_space = true;  // white space at the beginning goes
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.size(), at + kSimplifyChunk);
    out.resize(to + kMostGrowth * kSimplifyChunk + kMostOfOne);
    char* const room = out.data();
    while (at < stop) {
      const auto byte = static_cast<uint8_t>(text[at]);
      uint32_t image;
      size_t size = 1;
      uint32_t value = byte;
      if (byte < 0x80) {
        image = static_cast<uint8_t>(ascii_[byte]);
        if (image != '0') {
          room[to] = static_cast<char>(image);
          to += image != ' ' || !behind_space;
          behind_space = image == ' ';
          ++at;
          continue;
        }
      } else {
        const text::CodePoint c = text::decode_utf8(text, at);
        size = c.size;
        value = c.value == text::kInvalidByte ? kReplacement : c.value;
        image = value < kBasicPlane ? images_[value] : image_of(value);
      }
      if (image == '0') {
        at = end_of_number(text, at);
        room[to++] = '0';
        behind_space = false;
        continue;
      }
      at += size;
      if (image == ' ') {
        room[to] = ' ';
        to += !behind_space;
        behind_space = true;
        continue;
      }
      behind_space = false;
      if (image == kImageDepends) return simplify_plainly(text);
      if (image == kImageSeveral) {
        several.clear();
        append_images(value, several);
        to += several.copy(room + to, several.size());
      } else if (image != kImageDropped) {
        to = put_utf8(room, to, image);
      }
    }
  }
  return trimmed(std::move(out), to);
}

}  // namespace athanor::corpus::dedup
