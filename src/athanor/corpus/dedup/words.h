// The words of a simplified text, in a row with one space between them: n words in a row are then a stretch of bytes.
//
//   const Words words = split_words(simplifier.simplify("The old man, 你好"));  // "the old man 你 好"
//   words.stretch(0, 3);                                                        // "the old man"
//
// A word is what stands between spaces. Scripts that are written without spaces have a word for each character:
// ideographs, kana, Thai, Lao, Burmese, Khmer. (Spaces alone would make a Chinese paragraph one word, and two
// paragraphs with one different character would share none.) Thread rule: plain data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

struct Words {
  std::string text = {};
  std::vector<uint32_t> begins = {};

  size_t count() const { return begins.size(); }
  // Words [first, first + number).
  std::string_view stretch(size_t first, size_t number) const {
    const size_t behind = first + number;
    const size_t end = behind < begins.size() ? begins[behind] - 1 : text.size();
    return std::string_view(text).substr(begins[first], end - begins[first]);
  }
};

bool is_word_by_itself(uint32_t code_point);

Words split_words(std::string simplified);  // of less than 4 GiB

}  // namespace athanor::corpus::dedup
