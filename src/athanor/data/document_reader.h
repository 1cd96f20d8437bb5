// The documents of a path: what a corpus is made of.
//
//   for_each_document(env, "data/en", {.text_key = "text"},
//                     [](std::string_view text, const DocumentPlace& place) { ... });
//
//   JSON          the string under text_key of each object, whether the file is JSON lines, an array of objects or
//                 objects one after the other (json_documents.h)
//   plain text    one document, or those between separator lines (text_documents.h)
//   a folder      all files below it in sorted order, links followed (source_files.h)
//
// What a file is, and how it is compressed (byte_source.h), its content decides, not its name; but a name that ends in
// .jsonl or .ndjson promises JSON. Documents without a byte are left out.
//
// A file that is neither text nor JSON (file_format.h: pictures, archives, Parquet, UTF-16, ...), or JSON that is one
// object or array without text_key, is an Error where it was named itself; in a folder it is left out and stands in
// the report with its reason. JSON lines are never left out.
//
// Thread rule: the callback runs in the calling thread. What the callback throws passes through.
// Errors: those of the files above.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/source_files.h"

namespace athanor {

// What stands between documents in many text files.
constexpr std::string_view kEndOfTextWord = "<|endoftext|>";

struct DocumentPlace {
  std::string file;
  int64_t line = 0;         // from 1 where the document begins; 0: it is the whole file
  std::string id = {};      // of the object in JSON that has one
  uint64_t bytes_done = 0;  // bytes of files (as stored) read so far, this document included
};
using DocumentCallback = std::function<void(std::string_view text, const DocumentPlace& place)>;

struct ReadOptions {
  std::string text_key = "text";
  // Lines of plain text that hold one of these alone divide documents.
  std::vector<std::string> separators = {std::string(kEndOfTextWord)};
};

struct ReadReport {
  int64_t files = 0;       // read
  int64_t json_files = 0;  // of those
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t separator_lines = 0;     // between documents of plain text
  int64_t plain_separators = 0;    // documents with a separator inside, which stays text
  std::vector<std::string> names;  // of the first files read
  std::vector<LeftOut> left_out;
  void add(const ReadReport& other);
};

// "a.jsonl and b.txt read; left out: notes.txt (UTF-16 text (little-endian))" and the like, one sentence a line, about
// all that was not read as one might think; empty where there is nothing to say.
std::vector<std::string> remarks(const ReadReport& report, const std::string& path);

// ConfigError: somebody asked for a key, and nothing that was read has keys.
void check_text_key_used(const ReadReport& report, const std::string& text_key);

ReadReport for_each_document(Env& env, const std::string& path, const ReadOptions& options,
                             const DocumentCallback& callback);

}  // namespace athanor
