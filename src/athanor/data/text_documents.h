// The documents of a plain text file: all of it, or the parts between lines that hold a separator alone.
//
//   for_each_text_document(source, "stories.txt", {"<|endoftext|>"}, [](std::string_view text, int64_t line) { ... });
//
// A separator line is one whose text, blanks around it apart, is one of the separators. Parts of blanks alone are
// left out; so is a byte-order mark at the start of the file. A part is held in memory as a whole, the file is not.
//
// Thread rule: the callback runs in the calling thread. Errors (naming the file and the line): bytes that are not
// UTF-8, a zero byte, a part above kMaxDocumentBytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/data/byte_source.h"

namespace athanor {

// A document is held in memory as a whole.
constexpr uint64_t kMaxDocumentBytes = uint64_t{1} << 30;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct TextPlace {
  uint64_t byte = 0;  // of a text's start in its file
  int64_t line = 1;
};

// Error naming the place of the first byte that is not UTF-8.
void check_utf8(std::string_view text, const std::string& name, const TextPlace& place = {});

// Calls with each document and the line that it starts in (0: it is the whole file); returns the number of separator
// lines.
int64_t for_each_text_document(ByteSource& source, const std::string& name,
                               const std::vector<std::string>& separators,
                               const std::function<void(std::string_view text, int64_t line)>& callback);

}  // namespace athanor
