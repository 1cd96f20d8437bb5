// Starts a thread for a group. Signals are blocked in it, so that they reach the program's own threads.
//
//   std::thread thread = make_own_thread(options, [this] { run_thread(); });
//
// Thread rule: pure function.
#pragma once

#include <functional>
#include <thread>

#include "athanor/comm/options.h"

namespace athanor::comm {

// Runs options.on_thread, then body.
std::thread make_own_thread(const GroupOptions& options, std::function<void()> body);

}  // namespace athanor::comm
