// What a rank says of its progress (messages.h). Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::control {

// `other`: what is not counted, such as building a model.
enum class ProgressKind { step, evaluation, saving, tokenizing, closing, other };
constexpr int kNumProgressKinds = 6;
std::string_view name_of(ProgressKind kind);

// What a rank does, said when that changes, and counts what is done of it, so that standing still can be seen. A count is
// droppable. The times are sums from the start of the process, in steps: it worked, and it waited for the others.
struct Progress {
  int64_t generation = 0, step = 0;  // the last step that is committed
  ProgressKind kind = ProgressKind::step;
  int64_t count = 0;  // of what `kind` says, from the start of the process
  int64_t busy_ns = 0, waited_ns = 0;
  bool operator==(const Progress&) const = default;
};

}  // namespace athanor::control
