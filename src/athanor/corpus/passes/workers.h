// Runs numbered tasks in several processes, which have all that this one had when they were forked.
//
//   run_tasks(4, 100, [&](int64_t task, const WorkDone& done) { done(bytes_of(task)); return result_of(task); },
//             [&](int64_t, const std::string& result) { take(result); },     // in this process, as tasks end
//             [&](uint64_t bytes) { show(bytes); });                         // work that tasks say they have done
//
// With one worker all is done in this process. Tasks are given out in their order, each to whoever is free; what they
// make must not depend on that. Workers die with this process, however it ends.
//
// Thread rule: the calling process has one thread. Errors: what a task throws, as Error or Recoverable with the same
// text, once the tasks at work have ended; Error naming the task if its process dies, with its signal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::passes {

using WorkDone = std::function<void(uint64_t bytes)>;
using Task = std::function<std::string(int64_t task, const WorkDone& done)>;

void run_tasks(int num_workers, int64_t num_tasks, const Task& body,
               const std::function<void(int64_t task, const std::string& result)>& ended,
               const WorkDone& progress);

}  // namespace athanor::corpus::passes
