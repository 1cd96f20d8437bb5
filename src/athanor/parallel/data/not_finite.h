// The error for a weight, gradient or loss that is NaN or infinite: training cannot recover by going on. The trainer
// catches it by its type and adds which checkpoint is the last finite one. Thread rule: a plain value.
#pragma once

#include "athanor/base/error.h"

namespace athanor::parallel::data {

class NotFinite : public Error {
 public:
  using Error::Error;
};

}  // namespace athanor::parallel::data
