// What the members of a group throw that did not make the same call.
//
//   catch (const CallMismatch& failure) { meet_again(failure.what()); }
//
// It is an Error: a program that is wrong makes the same mistake again. But a call, or a message, may have been damaged on the
// way; so a launched run tries again, as often as its restarts allow. Thread rule: a plain value.
#pragma once

#include "athanor/base/error.h"

namespace athanor::comm {

class CallMismatch : public Error {
 public:
  using Error::Error;
};

}  // namespace athanor::comm
