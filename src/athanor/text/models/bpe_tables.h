// The vocabulary and the merges of a BPE model as they stand in a tokenizer.json. They are nearly all of its bytes, up to
// 33 MB, and a tree of them costs many times what the model does, so they are read straight from the text.
//
//   const std::optional<BpeTables> tables = read_bpe_tables(text);
//   const JsonFile file(name, text, tables ? tables->places : std::vector<ByteSpan>{});   // the tree of the rest
//
// Only text without a flaw is read: a table of another shape, a doubtful character, a key given twice or a model of
// another kind gives no tables, and the tree of the whole text says what is wrong.
// Thread rule: plain data; strings are parts of the text that was read, which must outlive them, or of `storage`.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/text/byte_span.h"

namespace athanor::text::models {

struct BpeTables {
  std::vector<std::pair<std::string_view, int64_t>> vocab = {};  // token, id
  std::vector<std::pair<std::string_view, std::string_view>> merges = {};
  std::vector<ByteSpan> places = {};     // of both values in the text, in order
  std::deque<std::string> storage = {};  // of strings that are written with escapes
};

std::optional<BpeTables> read_bpe_tables(std::string_view json);

}  // namespace athanor::text::models
