// A thread that a group starts for itself: without signals, which are for the program's own threads.
//
// Thread rule: pure function.
#pragma once

#include <functional>
#include <thread>

#include "athanor/comm/options.h"

namespace athanor {

// Runs options.on_thread, then body.
std::thread make_own_thread(const GroupOptions& options, std::function<void()> body);

}  // namespace athanor
