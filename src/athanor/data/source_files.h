// The files below a path, and what stands there and is not read.
//
//   const SourceFiles found = list_sources(env, "data/en");
//   found.files[0].path, found.left_out[0].reason;
//
// Files come in sorted order and links are followed. Left out of a folder, each with its reason: hidden entries
// (.x), links to nothing, links to themselves or to a folder above, pipes, sockets and devices.
//
// Thread rule: any thread. Errors: a path that is missing (IoError), is neither a file nor a folder, or a file or
// folder that may not be read (IoError).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

struct SourceFile {
  std::string path;
  std::string relative;     // to the path that was asked for; the file's name where that is a file
  uint64_t size_bytes = 0;  // as stored
};

struct LeftOut {
  std::string file;    // relative to the path that was asked for
  std::string reason;  // "a link to nothing"
  bool operator==(const LeftOut&) const = default;
};

struct SourceFiles {
  std::vector<SourceFile> files;
  std::vector<LeftOut> left_out;
  uint64_t size_bytes() const;
};

SourceFiles list_sources(Env& env, const std::string& path);

}  // namespace athanor
