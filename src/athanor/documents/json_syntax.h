// Scanning of JSON for what the bulk JSON parser does not provide: where a value ends, where its first fault is.
// Thread rule: pure functions, and plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

constexpr std::string_view kJsonBlanks = " \t\r\n";

// Finds the end of an object or array whose bytes come in pieces. take() returns how many bytes of the next piece
// belong to the value; done() says whether the value is closed. Only brackets and strings are looked at.
class JsonExtent {
 public:
  size_t take(std::string_view piece);
  bool done() const { return started_ && depth_ == 0; }

 private:
  int64_t depth_ = 0;
  bool started_ = false, in_string_ = false, escaped_ = false;
};

// The offset where the text stops being valid JSON; none if all of it is one value. Numbers may have any size. For a
// text that ends in the middle of a value it is the text's end.
std::optional<size_t> json_fault(std::string_view text);

// Overwrites every valid JSON number with 0, so that a parser that converts numbers accepts numbers of any size.
void blank_json_numbers(char* text, size_t size_bytes);

// The offsets of all escapes \ud800 to \udfff (six bytes each) that are not half of a surrogate pair.
std::vector<size_t> lone_surrogates(std::string_view text);

}  // namespace athanor::documents
