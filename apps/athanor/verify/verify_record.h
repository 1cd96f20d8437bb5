// A file with the results of `athanor verify` for layouts tried so far, so that a verification of hours can be
// interrupted, resumed, and shared by several processes.
//
//   LayoutRecord record("walk.jsonl", settings);              // opens or creates the file
//   if (const TriedLayout* known = record.find(layout)) ...   // not tried again
//   record.add(tried);                                        // one line, handed to the system
//
// The file has one line of JSON for the settings and one for each layout. An incomplete last line is dropped.
// Errors: Error naming the file if it is not a record or has other settings; IoError. Thread rule: one thread at a
// time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "athanor/base/file.h"
#include "verify_table.h"

namespace athanor::apps {

class LayoutRecord {
 public:
  LayoutRecord() = default;  // an empty record without a file
  // `settings` identifies what results depend on: what a layout is compared with, and by which program.
  LayoutRecord(const std::string& path, const std::string& settings);

  const TriedLayout* find(const Layout& layout) const;
  void add(const TriedLayout& tried);

 private:
  std::string path_;
  std::map<std::string, TriedLayout> known_;  // by text_of()
  std::unique_ptr<WritableFile> file_;
};

// A result as one line without its line end, and back.
std::string line_of(const TriedLayout& tried);
TriedLayout tried_of(const std::string& line, const std::string& file);

}  // namespace athanor::apps
