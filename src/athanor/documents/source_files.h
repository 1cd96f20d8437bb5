// Lists the files below a path, and what is there but cannot be read.
//
//   const SourceFiles found = list_sources(env, "data/en");
//   found.files[0].path, found.left_out[0].reason;
//
// Files come in sorted order and links are followed. Inside a folder these are left out, with a reason: hidden entries
// (.x), links to nothing, links to themselves or to a parent folder, pipes, sockets and devices.
//
// Thread rule: any thread. Errors: IoError for a missing path or a file or folder without permission to read; Error for
// a path that is neither a file nor a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::documents {

struct SourceFile {
  std::string path;
  std::string relative;     // path relative to the given path; the file's name if the given path is a file
  uint64_t size_bytes = 0;  // as stored
};

struct LeftOut {
  std::string file;    // relative to the given path
  std::string reason;  // "a link to nothing"
  bool operator==(const LeftOut&) const = default;
};

struct SourceFiles {
  std::vector<SourceFile> files;
  std::vector<LeftOut> left_out;
  uint64_t size_bytes() const;
};

SourceFiles list_sources(Env& env, const std::string& path);

}  // namespace athanor::documents
