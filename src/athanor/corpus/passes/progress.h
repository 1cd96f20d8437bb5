// How a build tells what it does: the pass, bytes done and bytes in all, and the share of documents that is kept so far.
// Thread rule: called in the process that builds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::passes {

struct PassProgress {
  std::string what;         // "reading", "annotating", "earlier corpus", "comparing", "writing"
  uint64_t done_bytes = 0;  // of files while they are read, else of text
  uint64_t total_bytes = 0;
  // Documents that this build has annotated, and those that no rule drops; copies count once they are found: while
  // writing. Both are 0 while nothing is known.
  uint64_t seen_documents = 0, kept_documents = 0;
};
using Progress = std::function<void(const PassProgress&)>;

}  // namespace athanor::corpus::passes
