// Work that was given up because somebody asked for it (a signal), before it had a result. What was half made is gone.
#pragma once

#include "athanor/base/error.h"

namespace athanor {

class Interrupted : public Recoverable {
 public:
  using Recoverable::Recoverable;
};

}  // namespace athanor
