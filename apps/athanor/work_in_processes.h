// Many independent pieces of work, done by forked copies of this process, one bound to each processor: what one of them
// does to its memory, or how it ends, is nothing to the others.
//
//   work_in_processes(items, /*processes=*/num_usable_cpus(),
//                     [&](size_t item) { return try_layout(item).line(); },            // in a child
//                     [&](size_t item, const WorkEnd& end) { print(end.text, end.died); });  // here, as they end
//
// An item whose process died ("signal 11") has no text; the others go on. The children end with this process. Texts
// are at most kMostWorkText long. Errors: what ForkedRanks throws; Error for a longer text. Thread rule: one thread,
// and no other runs while it forks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace athanor {

constexpr size_t kMostWorkText = 3500;  // with its item a pipe takes it whole

struct WorkEnd {
  std::string text;
  std::string died;  // why there is none
};

void work_in_processes(const std::vector<size_t>& items, int processes,
                       const std::function<std::string(size_t item)>& work,
                       const std::function<void(size_t item, const WorkEnd&)>& ended);

}  // namespace athanor
