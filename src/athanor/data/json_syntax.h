// Questions about pieces of JSON that the parser of bulk JSON does not answer.
// Thread rule: pure functions, and a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

constexpr std::string_view kJsonBlanks = " \t\r\n";

// Finds the end of an object or array whose bytes come in pieces: take() returns how many bytes of the next piece
// belong to it, and done() says whether the last of them closed it. Brackets and strings alone are looked at.
class JsonExtent {
 public:
  size_t take(std::string_view piece);
  bool done() const { return started_ && depth_ == 0; }

 private:
  int64_t depth_ = 0;
  bool started_ = false, in_string_ = false, escaped_ = false;
};

// Where text stops being JSON; none where all of it is one value. Numbers may have any size. A text that ends in the
// middle stops at its end.
std::optional<size_t> json_fault(std::string_view text);

// Writes 0 over each number that is one by JSON's grammar, so that a parser that converts numbers takes them all.
void blank_json_numbers(char* text, size_t size_bytes);

// Where each \ud800 to \udfff stands that is no half of a pair; six bytes each, as it is written.
std::vector<size_t> lone_surrogates(std::string_view text);

}  // namespace athanor
