// check(condition, format, args...): throws Error with the formatted message when the condition is false.
//
//   check(x.dim(-1) == w.dim(0), "rms_norm: x {} must end in the length of w {}", x.shape(), w.shape());
//
// The arguments are evaluated always, the message is formatted only on failure.
#pragma once

#include <fmt/core.h>

#include "athanor/base/error.h"

namespace athanor::base {

template <typename... Args>
void check(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) [[unlikely]]
    throw Error(fmt::vformat(message, fmt::make_format_args(args...)));
}

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(fmt::vformat(message, fmt::make_format_args(args...)));
}

}  // namespace athanor::base
