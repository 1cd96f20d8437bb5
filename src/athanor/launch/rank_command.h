// How the process of a rank is started, by whoever starts it.
//
//   Worker process(rank_command(options, place, signals.before()));
//
// Thread rule: pure.
#pragma once

#include <csignal>

#include "athanor/launch/agent.h"
#include "athanor/launch/environment/worker_place.h"
#include "athanor/launch/worker.h"

namespace athanor::launch {

WorkerCommand rank_command(const LaunchOptions& options, const WorkerPlace& place,
                           const sigset_t& signal_mask);

}  // namespace athanor::launch
