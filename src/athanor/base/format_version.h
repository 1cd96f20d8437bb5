// Versions of what is kept on disk: a number that goes up when names or meanings in it change.
//
//   check_format("runs/x", /*got=*/1, kRunFormat, "start from its weights with train.init_from");
//   // FormatError: runs/x: format 1, expected 2: an earlier version wrote it
//
// Nothing of another format is read, and so nothing of it is changed. Thread rule: a pure function.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/error.h"

namespace athanor::base {

class FormatError : public Error {
 public:
  using Error::Error;
};

// Returns where the two are equal. `hint` is for one of an earlier version.
void check_format(const std::string& what, int64_t got, int64_t expected, const std::string& hint);

}  // namespace athanor::base
