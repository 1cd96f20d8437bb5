// Runs many independent work items in forked copies of this process, each bound to a processor. A crash of one process,
// or what it does to its memory, does not affect the others.
//
//   work_in_processes(items, /*processes=*/num_usable_cpus(),
//                     [&](size_t item) { return try_layout(item).line(); },            // in a child
//                     [&](size_t item, const WorkEnd& end) { print(end.text, end.died); });  // here, as they end
//
// An item whose process died ("signal 11") has no text; the other items go on. The children end with this process. A text
// has at most kMostWorkText bytes. Errors: what ForkedRanks throws; Error for a longer text. Thread rule: one thread, and
// no other thread may run while it forks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace athanor::apps {

constexpr size_t kMostWorkText = 3500;  // together with the item's number a pipe takes it in one write

struct WorkEnd {
  std::string text;
  std::string died;  // why there is no text
};

void work_in_processes(const std::vector<size_t>& items, int processes,
                       const std::function<std::string(size_t item)>& work,
                       const std::function<void(size_t item, const WorkEnd&)>& ended);

}  // namespace athanor::apps
