// Reads the documents of files: JSON, JSON lines, CSV, WET or plain text, compressed or not.
//
//   for_each_document(env, "data/en", {.text_key = "text"},
//                     [](std::string_view text, const DocumentPlace& place) { ... });
//
//   JSON          a document is the string under text_key of each object. The file is JSON lines, an array
//                 of objects, or objects one after the other (json_documents.h)
//   CSV           a document is the column text_key of each row (csv_documents.h)
//   WET           the records of type conversion of a WARC file (wet_documents.h)
//   plain text    the file is one document, or several divided by separator lines (text_documents.h)
//   a path        a file, a folder with all below it, a glob, or "-" (source_files.h)
//
// The content of a file, not its name, decides its format and its compression (byte_source.h); but a name that ends in
// .jsonl or .ndjson must hold JSON, and one in .csv or .tsv is CSV. Empty documents are skipped and counted.
//
// A file that is neither text nor JSON (file_format.h: pictures, archives, Parquet, UTF-16, ...), JSON that is one
// object or array without text_key, or CSV without that column is an Error if the path names it. Inside a folder it is
// left out and reported with a reason. JSON lines are never left out.
//
// Where ReadOptions::refused is set, a record that is broken is told to it and skipped (record.h). So is a file that is
// cut short or corrupt as an archive, or foreign: with line 0, once, behind the documents that stand before the fault.
// Memory is bounded by max_document_bytes, whatever comes.
//
// Thread rule: the callbacks run in the calling thread. Exceptions of the callbacks pass through.
// Errors: those of the headers named above; ConfigError for an unknown format or a max_document_bytes out of range.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/record.h"
#include "athanor/documents/source_files.h"

namespace athanor::documents {

// The separator between documents in many text files.
constexpr std::string_view kEndOfTextWord = "<|endoftext|>";

struct DocumentPlace {
  std::string file;
  int64_t line = 0;         // the line where the document begins, from 1; 0: the document is the whole file
  std::string id = {};      // under the id_key of its record, if it has one
  uint64_t bytes_done = 0;  // bytes of files (as stored) read so far, this document included
  // The record's number in its file, from 0; refused and empty records count too, so it never shifts.
  int64_t record = 0;
  std::string metadata = "{}";  // the other keys of the record as one line of JSON, if asked for
};
using DocumentCallback = std::function<void(std::string_view text, const DocumentPlace& place)>;

struct ReadOptions {
  std::string text_key = "text";  // a key, a path "a.b" or a template "{title}\n{body}" (text_key.h)
  // A line of plain text that holds only one of these strings divides documents.
  std::vector<std::string> separators = {std::string(kEndOfTextWord)};
  std::string id_key = "id";
  bool whole_object = false;  // a document is the JSON object itself; an Error for files of another format
  bool with_metadata = false;
  std::string format = "auto";  // text, jsonl (any JSON), csv, wet; auto: the content decides
  char csv_delimiter = '\0';    // 0: found from the header
  uint64_t max_document_bytes = kMaxDocumentBytes;  // of a record as stored, at most kMaxDocumentBytes
  std::function<void(const DocumentPlace& place, const Refusal& why)> refused = {};
  std::function<std::unique_ptr<ByteSource>()> standard_input = {};  // what "-" reads
};

struct ReadReport {
  int64_t files = 0;       // read
  int64_t json_files = 0;  // files read where the text key applies: JSON and CSV
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t separator_lines = 0;     // between documents of plain text
  int64_t plain_separators = 0;    // documents with a separator inside, which stays text
  int64_t empty = 0;               // documents skipped because nothing stands in them
  int64_t refused = 0;             // records and files told to ReadOptions::refused
  std::vector<std::string> names;  // of the first files read
  std::vector<LeftOut> left_out;
  void add(const ReadReport& other);
};

// Sentences for people about files that were not read as one might expect, such as "a.jsonl and b.txt read; left out:
// notes.txt (UTF-16 text (little-endian))". Empty if there is nothing to say.
std::vector<std::string> remarks(const ReadReport& report, const std::string& path);

// ConfigError if the user set text_key but no file that was read was JSON or CSV.
void check_text_key_used(const ReadReport& report, const std::string& text_key);

// One file of list_sources(). bytes_done counts from the start of this file.
ReadReport read_file_documents(Env& env, const SourceFile& file, const ReadOptions& options,
                               const DocumentCallback& callback);

// All files of a path.
ReadReport for_each_document(Env& env, const std::string& path, const ReadOptions& options,
                             const DocumentCallback& callback);

}  // namespace athanor::documents
