// The documents of a path: what a corpus is made of.
//
//   for_each_document(env, "data/en", "text", [](std::string_view text, const DocumentPlace& place) { ... });
//
//   a .jsonl file    one document per line: the string under text_key of each object; blank lines are skipped
//   any other file   one document, whatever its suffix (.txt .md .c .1 ...)
//   a folder         all files below it in sorted order, hidden ones (.x) left out, links followed
//
// Each file may be compressed (.gz, .zst: byte_source.h). Documents without a byte are left out.
//
// A file with a NUL byte in its first 4 KiB is binary: an Error where the file was named itself, left out and
// counted where it was found in a folder. Text must be UTF-8.
//
// Thread rule: the callback runs in the calling thread. What the callback throws passes through.
// Errors (each names the file): not UTF-8 (with line and byte), a line that is not JSON or not an object, no
// text_key in it (lists the keys there are), a document above kMaxDocumentBytes, corrupt compression.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/byte_source.h"

namespace athanor {

// A document is held in memory as a whole.
constexpr uint64_t kMaxDocumentBytes = uint64_t{1} << 30;

struct DocumentPlace {
  std::string file;
  int64_t line = 0;         // from 1 in a JSONL file; 0: the whole file
  uint64_t bytes_done = 0;  // bytes of files (as stored) read so far, this document included
};
using DocumentCallback = std::function<void(std::string_view text, const DocumentPlace& place)>;

struct ReadReport {
  int64_t files = 0;  // read
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t binary_files = 0;  // left out
};

struct SourceFile {
  std::string path;
  std::string relative;     // to the path that was asked for; the file's name where that is a file
  uint64_t size_bytes = 0;  // as stored
};

// The files that for_each_document would open, in its order; a missing path is an IoError.
std::vector<SourceFile> list_source_files(Env& env, const std::string& path);

ReadReport for_each_document(Env& env, const std::string& path, const std::string& text_key,
                             const DocumentCallback& callback);

// One stream of JSON lines, without the file around it.
void for_each_json_line(ByteSource& source, const std::string& name, const std::string& text_key,
                        const std::function<void(std::string_view text, int64_t line)>& callback);

// Error naming the place of the first byte that is not UTF-8.
void check_utf8(std::string_view text, const std::string& name);

}  // namespace athanor
