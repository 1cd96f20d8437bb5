// A document as a line of JSON, as shards and the parts of a build hold it: {"id", "text", "source", "metadata"}, the
// layout that Dolma's tools read.
//
//   Document document;
//   append_record(line, document);                       // ends with a line break
//   RecordReader reader(env, "part-000000-000000.jsonl.zst");
//   while (reader.next(document)) use(document);
//
// Thread rule: one thread. Errors: Error naming the file where a line is none of ours.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/corpus/document.h"

namespace athanor::corpus::passes {

void append_record(std::string& out, const Document& document);
// In double quotes; the text is UTF-8.
void append_json_string(std::string& out, std::string_view text);

class RecordReader {
 public:
  RecordReader(Env& env, const std::string& path);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  bool next(Document& document);  // all but its channel; false at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::corpus::passes
