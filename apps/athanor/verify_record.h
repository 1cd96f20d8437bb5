// The layouts that earlier walks of the same settings have tried, in a file that outlives them: a walk of hours may be
// cut off, go on, and be shared by several.
//
//   LayoutRecord record("walk.jsonl", settings);              // opens, or begins, the file
//   if (const TriedLayout* known = record.find(layout)) ...   // not tried again
//   record.add(tried);                                        // one line, with the system when it returns
//
// One line of JSON for the settings and one for each layout. A last line that was cut off is dropped. Errors: Error
// naming the file where it is no record or one of other settings; IoError. Thread rule: one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "athanor/base/file.h"
#include "verify_table.h"

namespace athanor {

class LayoutRecord {
 public:
  LayoutRecord() = default;  // of nothing, kept nowhere
  // `settings` tells this walk from others: what a layout is held against, and by which program.
  LayoutRecord(const std::string& path, const std::string& settings);

  const TriedLayout* find(const ParallelConfig& layout) const;
  void add(const TriedLayout& tried);

 private:
  std::string path_;
  std::map<std::string, TriedLayout> known_;  // by text_of()
  std::unique_ptr<WritableFile> file_;
};

// One line, without its end, and back.
std::string line_of(const TriedLayout& tried);
TriedLayout tried_of(const std::string& line, const std::string& file);

}  // namespace athanor
