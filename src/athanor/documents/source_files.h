// Lists the files that a path stands for, and what is there but cannot be read.
//
//   const SourceFiles found = list_sources(env, "data/en");
//   found.files[0].path, found.left_out[0].reason;
//
//   a file            that file
//   a folder          all files below it
//   a glob            what it matches: raw/en/**, *.jsonl.gz, part-?.txt, [a-z]*; a folder that matches is read whole
//   -                 standard input (document_reader.h says where it comes from)
//
// In a glob * and ? stop at a slash; a component ** stands for any number of folders, none included. [!a-z] is any
// other character, \* an asterisk. A path that exists as it stands is no glob.
//
// Files come in sorted order and links are followed. Inside a folder these are left out, with a reason: hidden entries
// (.x), links to nothing, links to themselves or to a parent folder, pipes, sockets and devices. So are those that a
// glob matches; a name that the glob spells out with its dot is not hidden.
//
// Thread rule: any thread. Errors: IoError for a missing path or a file or folder without permission to read; Error for
// a path that is neither a file nor a folder, and for a glob that no file matches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::documents {

constexpr const char* kStandardInput = "-";

struct SourceFile {
  std::string path;
  // Path relative to the given path, or to the folders before the first wildcard of a glob; the file's name if the given
  // path is a file; "stdin" for standard input.
  std::string relative;
  uint64_t size_bytes = 0;       // as stored; 0 for standard input
  bool may_be_left_out = false;  // it was found in a folder or by a glob, not named itself
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
