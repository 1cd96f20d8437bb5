#include "athanor/text/unicode/properties.h"

#include <algorithm>
#include <vector>

#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {
namespace {

constexpr uint32_t kNumCodePoints = 0x110000;
constexpr uint32_t kCodePointBits = 21;
constexpr uint32_t kCodePoint = (1 << kCodePointBits) - 1;
constexpr uint8_t kCategory = 31, kAlphabetic = 32, kHan = 64, kOtherIn8 = 128;

// A byte a code point.
std::vector<uint8_t> fill() {
  std::vector<uint8_t> all(kNumCodePoints);
  for (size_t i = 0; i < kPropertiesSize; ++i) {
    const uint32_t end = i + 1 < kPropertiesSize ? kProperties[i + 1] & kCodePoint : kNumCodePoints;
    std::fill(all.begin() + (kProperties[i] & kCodePoint), all.begin() + end,
              static_cast<uint8_t>(kProperties[i] >> kCodePointBits));
  }
  return all;
}

uint8_t properties(uint32_t c) {
  static const std::vector<uint8_t> all = fill();
  return c < kNumCodePoints ? all[c] : 0;
}

Category category_of(uint8_t properties) {
  return static_cast<Category>(properties & kCategory);
}

}  // namespace

uint32_t value_in(const uint32_t* stretches, size_t size, uint32_t c) {
  const auto* const next =
      std::upper_bound(stretches, stretches + size, c,
                       [](uint32_t point, uint32_t stretch) { return point < (stretch & kCodePoint); });
  return next[-1] >> kCodePointBits;
}

Category category(uint32_t c) {
  return category_of(properties(c));
}

Category category_in_8(uint32_t c) {
  const uint8_t now = properties(c);
  if (!(now & kOtherIn8)) return category_of(now);
  return static_cast<Category>(value_in(kOldCategories, kOldCategoriesSize, c));
}

bool is_alphabetic(uint32_t c) {
  return properties(c) & kAlphabetic;
}

bool is_han(uint32_t c) {
  return properties(c) & kHan;
}

bool is_white_space(uint32_t c) {
  const Category category = unicode::category(c);
  return (category >= Category::space_separator && category <= Category::paragraph_separator) ||
         (c >= '\t' && c <= '\r') || c == 0x85;
}

bool is_graphic(uint32_t c) {
  const Category category = unicode::category(c);
  return category != Category::unassigned && category < Category::space_separator;
}

uint32_t lowercase(uint32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  size_t low = 0, high = kLowercaseSize / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((kLowercase[3 * middle + 1] & kCodePoint) < c)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == kLowercaseSize / 3 || kLowercase[3 * low] > c) return c;
  const uint32_t step = kLowercase[3 * low + 1] >> kCodePointBits;
  return (c - kLowercase[3 * low]) % step == 0 ? c + kLowercase[3 * low + 2] : c;
}

CharClass class_of(uint32_t c) {
  const Category category = unicode::category(c);
  if (unicode::is_letter(category)) return CharClass::letter;
  if (unicode::is_number(category)) return CharClass::number;
  return is_white_space(c) ? CharClass::space : CharClass::other;
}

}  // namespace athanor::text::unicode
