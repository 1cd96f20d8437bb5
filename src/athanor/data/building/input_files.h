// The files that a token file is made from, in groups: the unit that is read, and found read, as a whole.
//
//   const InputFiles input(env, {"text/en", "more.jsonl.zst"}, /*group_bytes=*/64 << 20);
//   for (const FileGroup& group : input.groups()) read(group);  // neighbours of one path; a large file has its own
//
// The groups follow from the paths and the files' sizes, never from who reads them. Thread rule: const, any thread.
// Errors: those of documents/source_files.h; Error from check_unchanged() naming a file that is another one now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/documents/source_files.h"

namespace athanor::data::building {

struct FileGroup {
  size_t path = 0;              // the number of the path that the files were found from
  size_t first = 0, count = 0;  // files, of those of the path
  uint64_t bytes_before = 0;    // of all files before it
  uint64_t size_bytes = 0;
};

class InputFiles {
 public:
  InputFiles(Env& env, const std::vector<std::string>& paths, uint64_t group_bytes);

  const std::vector<FileGroup>& groups() const { return groups_; }
  const SourceFiles& of_path(size_t path) const { return found_[path]; }
  uint64_t size_bytes() const { return size_bytes_; }
  bool has_standard_input() const;
  // Names, sizes, numbers and times of all files, as the constructor found them: another one if a file was replaced or
  // written to.
  const std::string& identity() const { return identity_; }
  void check_unchanged() const;  // since the constructor

 private:
  std::vector<SourceFiles> found_;
  std::vector<std::string> stamps_;  // of all files
  std::vector<FileGroup> groups_;
  std::string identity_;
  uint64_t size_bytes_ = 0;
};

}  // namespace athanor::data::building

namespace athanor {
using athanor::data::building::FileGroup;
using athanor::data::building::InputFiles;
}  // namespace athanor
