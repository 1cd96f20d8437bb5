// Lines that a run's files no longer hold, kept in a file beside them.
//
//   set_aside(env, "runs/first/metrics.abandoned.jsonl", lines);   // then rewrite metrics.jsonl without them
//
// Lines that an earlier start has set aside before it died are not written twice, and half a line that it left is cut off.
// On disk when it returns. Errors: IoError of the Env. Thread rule: one thread per file.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor::observe {

// `lines`: with their ends; nothing happens where there are none.
void set_aside(Env& env, const std::string& path, std::string_view lines);

}  // namespace athanor::observe
