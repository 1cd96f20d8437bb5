// Reads the documents of a file or folder: JSON, JSON lines or plain text, compressed or not.
//
//   for_each_document(env, "data/en", {.text_key = "text"},
//                     [](std::string_view text, const DocumentPlace& place) { ... });
//
//   JSON          a document is the string under text_key of each object. The file is JSON lines, an array
//                 of objects, or objects one after the other (json_documents.h)
//   plain text    the file is one document, or several divided by separator lines (text_documents.h)
//   a folder      all files below it in sorted order, links followed (source_files.h)
//
// The content of a file, not its name, decides its format and its compression (byte_source.h); but a name that ends in
// .jsonl or .ndjson must hold JSON. Empty documents are skipped.
//
// A file that is neither text nor JSON (file_format.h: pictures, archives, Parquet, UTF-16, ...), or JSON that is one
// object or array without text_key, is an Error if the path names it. Inside a folder it is left out and reported with
// a reason. JSON lines are never left out.
//
// Thread rule: the callback runs in the calling thread. Exceptions of the callback pass through.
// Errors: those of the headers named above.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/documents/source_files.h"

namespace athanor::documents {

// The separator between documents in many text files.
constexpr std::string_view kEndOfTextWord = "<|endoftext|>";

struct DocumentPlace {
  std::string file;
  int64_t line = 0;         // the line where the document begins, from 1; 0: the document is the whole file
  std::string id = {};      // the "id" of the JSON object, if it has one
  uint64_t bytes_done = 0;  // bytes of files (as stored) read so far, this document included
};
using DocumentCallback = std::function<void(std::string_view text, const DocumentPlace& place)>;

struct ReadOptions {
  std::string text_key = "text";
  // A line of plain text that holds only one of these strings divides documents.
  std::vector<std::string> separators = {std::string(kEndOfTextWord)};
};

struct ReadReport {
  int64_t files = 0;       // read
  int64_t json_files = 0;  // files read that were JSON
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t separator_lines = 0;     // between documents of plain text
  int64_t plain_separators = 0;    // documents with a separator inside, which stays text
  std::vector<std::string> names;  // of the first files read
  std::vector<LeftOut> left_out;
  void add(const ReadReport& other);
};

// Sentences for people about files that were not read as one might expect, such as "a.jsonl and b.txt read; left out:
// notes.txt (UTF-16 text (little-endian))". Empty if there is nothing to say.
std::vector<std::string> remarks(const ReadReport& report, const std::string& path);

// ConfigError if the user set text_key but no file that was read was JSON.
void check_text_key_used(const ReadReport& report, const std::string& text_key);

ReadReport for_each_document(Env& env, const std::string& path, const ReadOptions& options,
                             const DocumentCallback& callback);

}  // namespace athanor::documents
