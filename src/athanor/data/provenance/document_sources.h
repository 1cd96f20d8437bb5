// Where the documents of a token file came from: PREFIX.sources beside PREFIX.bin and PREFIX.idx.
//
//   SourcesWriter writer(env, "data/en.sources.tmp");
//   writer.add({"text/en/a.jsonl", /*record=*/0, /*line=*/1});       // document 0
//   writer.add({"text/en/a.jsonl", 2, 3});                           // document 1: the record between them was empty
//   writer.finish(/*num_tokens=*/700);
//
//   const DocumentSources sources("data/en.sources", /*num_documents=*/2, /*num_tokens=*/700);
//   sources.of(1);                                                   // {"text/en/a.jsonl", 2, 3}
//
// The file, little-endian: "ATHSRC01" · D x {u32 record, u32 line} · S x {u64 first document, u64 file, u64 record,
// u64 line} · F x u64 end of each name · names · u64 D documents · u64 T tokens · u64 S segments · u64 F files · u64 bytes
// of names · 32 digits, the hash of all before. Record and line of a document count from those of its segment, which is
// the last one that begins at or before it. A segment ends where the file does, and where 32 bits do not reach further.
// The tables come last, so that the file is written in one pass, in memory for the names alone.
//
// Thread rule: a writer belongs to one thread; many threads may read sources.
// Errors: Error naming the file for one that does not belong to that many documents and tokens, or is damaged; IoError
// for failures of the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/base/hash.h"
#include "athanor/base/namespaces.h"

namespace athanor::data::provenance {

struct DocumentSource {
  std::string file;    // as it was found from the path that the token file was built from
  int64_t record = 0;  // its number in the file, from 0; empty records count, too
  int64_t line = 0;    // where it begins, from 1; 0: the document is the whole file
  bool operator==(const DocumentSource&) const = default;
};

// Documents from number first_document on, until the next segment.
struct SourceSegment {
  uint64_t first_document = 0, file = 0, record = 0, line = 0;
};

class SourcesWriter {
 public:
  // The file comes with the first document.
  SourcesWriter(Env& env, std::string path) : env_(env), path_(std::move(path)) {}
  void add(const DocumentSource& source);
  void finish(int64_t num_tokens);  // syncs and closes the file
  int64_t num_documents() const { return num_documents_; }
  const std::string& path() const { return path_; }

 private:
  void flush();

  Env& env_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  Hash128 hash_;
  int64_t num_documents_ = 0;
  std::string last_file_, names_;
  std::vector<uint64_t> name_ends_;
  std::vector<SourceSegment> segments_;
};

class DocumentSources {
 public:
  DocumentSources(const std::string& path, int64_t num_documents, int64_t num_tokens);
  DocumentSource of(int64_t document) const;
  int64_t num_files() const { return num_files_; }
  void check_hash() const;  // Error if a byte is another one; reads the whole file

 private:
  SourceSegment segment(int64_t index) const;
  uint64_t name_end(int64_t file) const;
  void check_tables() const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  MappedFile file_;
  int64_t num_documents_, num_segments_ = 0, num_files_ = 0;
  uint64_t names_bytes_ = 0;
};

}  // namespace athanor::data::provenance

namespace athanor {
using athanor::data::provenance::DocumentSource;
using athanor::data::provenance::DocumentSources;
using athanor::data::provenance::SourcesWriter;
}  // namespace athanor
