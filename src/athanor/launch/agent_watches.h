// What the agent's loop (agent_loop.h) knows its ranks by, and the machine: each watch is a class of diagnosis/, which sees no
// clock and no process. Times are of the monotonic clock. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "athanor/launch/diagnosis/end_in_words.h"
#include "athanor/launch/diagnosis/hang_report.h"
#include "athanor/launch/diagnosis/hang_watch.h"
#include "athanor/launch/diagnosis/hardware_counters.h"
#include "athanor/launch/diagnosis/memory_watch.h"
#include "athanor/launch/diagnosis/progress_watch.h"
#include "athanor/launch/diagnosis/slow_watch.h"

namespace athanor::launch {

struct AgentWatches {
  ProgressWatch stopped;
  HangWatch hangs;
  HardwareCounters hardware;
  MemoryKills memory_kills;
  SlowWatch slow{{}};
  MemoryWatch memory{{}};
  struct Hang {
    std::future<std::vector<RankStacks>> stacks{};  // valid: they are being read
    bool is_told = false, was_over = false;         // was_over: they were asked for after timeout_ms
  } hang{};
  int64_t hang_look_ns = 0, delay_look_ns = 0, hardware_look_ns = 0;  // the newest look
};

}  // namespace athanor::launch
