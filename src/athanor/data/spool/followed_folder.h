// A folder that grows: files are taken once they are there, in the order of their names among those that are new, and that order
// is kept in files.json of the spool folder, so that a process that goes on takes the same.
//
//   FollowedFolder folder(env, spool_folder, "incoming", {.text_key = "text"}, /*first_file=*/position.source);
//
// A file must be whole when it gets its name: write it under a hidden name, or one that ends in .tmp or .part, and rename it. A
// file that was taken may be removed once its text stands in windows, and must not change before. The file _SUCCESS says that no
// more will come. Thread rule: one thread. Errors: those of documents/; Error for a file that was taken and is gone or has
// another size.
#pragma once

#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/spool/spool_source.h"
#include "athanor/documents/document_reader.h"

namespace athanor::data::spool {

class FollowedFolder final : public SpoolSource {
 public:
  FollowedFolder(Env& env, const std::string& spool_folder, std::string folder, ReadOptions how,
                 int64_t first_file);
  Got read(const TakeRecord& take) override;  // one file

 private:
  struct Taken {
    std::string file;  // relative to the folder
    uint64_t bytes = 0;
  };
  bool look_for_more();  // true: no more will come

  Env& env_;
  const std::string list_, folder_;
  const ReadOptions how_;
  std::vector<Taken> taken_;
  size_t next_;  // of taken_
};

}  // namespace athanor::data::spool
