// Thrown by work that was given up because somebody asked for it (a signal). The work has no result and leaves no
// half-made files.
#pragma once

#include "athanor/base/error.h"

namespace athanor::base {

class Interrupted : public Recoverable {
 public:
  using Recoverable::Recoverable;
};

}  // namespace athanor::base
