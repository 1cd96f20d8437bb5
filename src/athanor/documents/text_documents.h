// Reads the documents of a plain text file: the whole file, or the parts between separator lines.
//
//   for_each_text_document(source, "stories.txt", {"<|endoftext|>"}, {},
//                          [](std::string_view text, const RecordPlace& place) { ... });
//
// A separator line holds one of the separators and nothing else but blanks. Parts of only blanks are skipped and
// counted; a byte-order mark at the start of the file is dropped. One document is held in memory at a time, not the
// file.
//
// Thread rule: the callback runs in the calling thread. Errors (naming the file and the line): RecordError for bytes
// that are not UTF-8, a zero byte, a part above max_bytes (record.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/documents/byte_source.h"
#include "athanor/documents/record.h"

namespace athanor::documents {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct TextPlace {
  uint64_t byte = 0;  // where the text starts in its file: byte offset
  int64_t line = 1;   // and line
};

// Throws Error, naming the position of the first byte that is not UTF-8, if there is one.
void check_utf8(std::string_view text, const std::string& name, const TextPlace& place = {});

struct TextReport {
  int64_t separator_lines = 0;
  int64_t blank_parts = 0;
};

// Line 0 of a place: the document is the whole file. Of the options, those about keys mean nothing here.
TextReport for_each_text_document(ByteSource& source, const std::string& name,
                                  const std::vector<std::string>& separators, const RecordOptions& options,
                                  const RecordCallback& callback);

}  // namespace athanor::documents
