// The rules of simplify.h for single characters. Private to dedup/. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

bool is_simple_space(uint32_t c);   // white space, punctuation, control characters
bool is_decimal_digit(uint32_t c);  // \p{Nd}

// The end of the number that begins at `at`.
size_t end_of_number(std::string_view text, size_t at);

// What one character becomes.
constexpr uint32_t kImageDropped = 0;  // nothing: a mark
constexpr uint32_t kImageSeveral = 1;  // see append_images()
constexpr uint32_t kImageDepends = 2;  // the characters around it matter
uint32_t image_of(uint32_t c);
void append_images(uint32_t c, std::string& out);

}  // namespace athanor::corpus::dedup
