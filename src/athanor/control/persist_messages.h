// What a rank and its launcher say to each other (messages.h) of a checkpoint that is written out of the slots which the
// launcher holds. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::control {

// From rank 0. Every rank has pinned its slot of this step: the checkpoint is to be written out of them under `path`. With one
// descriptor, of memory with the files beside the tensors (checkpoint/format/persist.h); `metrics` is to be safe first.
struct Persist {
  int64_t generation = 0, step = 0;
  int64_t files_bytes = 0;
  std::string path{}, metrics{};
  bool repeated = false;  // to another agent: the one before may have written it and told nobody
  bool operator==(const Persist&) const = default;
};

// From the agent. The checkpoint of a Persist is written, or could not be. Its slots are not pinned any more.
struct Persisted {
  int64_t step = 0;
  std::string path{}, error{};  // error "": it is written
  bool operator==(const Persisted&) const = default;
};

}  // namespace athanor::control
