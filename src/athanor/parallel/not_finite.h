// The error of a weight, a gradient or a loss that is not a number or infinite: going on would make nothing better. The
// trainer catches it by its kind and adds which checkpoint is the last finite one. Thread rule: a plain value.
#pragma once

#include "athanor/base/error.h"

namespace athanor {

class NotFinite : public Error {
 public:
  using Error::Error;
};

}  // namespace athanor
