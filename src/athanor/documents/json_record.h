// One record of JSON: its text, its id and its metadata.
//
//   JsonRecord record("a.jsonl", options);
//   record.read(bytes, size_bytes, line);
//   use(record.text(), record.place().id);
//
// Thread rule: one thread at a time. Errors: RecordError for anything but an object with a text (json_documents.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/documents/record.h"

namespace athanor::documents {

class JsonRecord {
 public:
  JsonRecord(const std::string& name, const RecordOptions& options);  // the options outlive it
  ~JsonRecord();

  // The bytes may be changed; RecordBuffer::kPaddingBytes behind them are read.
  void read(char* bytes, size_t size_bytes, int64_t line);

  // Of the last record read; valid until the next.
  std::string_view text() const;
  const RecordPlace& place() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace athanor::documents
