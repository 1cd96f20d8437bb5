// Reads the documents of a plain text file: the whole file, or the parts between separator lines.
//
//   for_each_text_document(source, "stories.txt", {"<|endoftext|>"}, [](std::string_view text, int64_t line) { ... });
//
// A separator line holds one of the separators and nothing else but blanks. Parts of only blanks are skipped; a
// byte-order mark at the start of the file is dropped. One document is held in memory at a time, not the file.
//
// Thread rule: the callback runs in the calling thread. Errors (naming the file and the line): bytes that are not
// UTF-8, a zero byte, a part above kMaxDocumentBytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/documents/byte_source.h"

namespace athanor::documents {

// The largest document, because a document is held in memory.
constexpr uint64_t kMaxDocumentBytes = uint64_t{1} << 30;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct TextPlace {
  uint64_t byte = 0;  // where the text starts in its file: byte offset
  int64_t line = 1;   // and line
};

// Throws Error, naming the position of the first byte that is not UTF-8, if there is one.
void check_utf8(std::string_view text, const std::string& name, const TextPlace& place = {});

// Calls `callback` with each document and the line that it starts in (0: the document is the whole file). Returns the
// number of separator lines.
int64_t for_each_text_document(ByteSource& source, const std::string& name,
                               const std::vector<std::string>& separators,
                               const std::function<void(std::string_view text, int64_t line)>& callback);

}  // namespace athanor::documents
