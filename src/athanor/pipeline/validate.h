// Whether a schedule may be executed: its counts are legal, every stage does every micro-batch exactly
// once, everything comes after what it needs, and with buffered sends no rank waits for ever.
//
//   validate(load_schedule(env, "mine.csv"));
//
// Also: on every stage F, I (or B) and W go through the micro-batches in their order. That is the order in
// which one process sums gradients (law 1), and in which messages between two stages are matched. Errors:
// Error naming the rank, the action and what is wrong with it. Thread rule: pure.
#pragma once

#include "athanor/pipeline/schedule.h"

namespace athanor {

void validate(const Schedule& schedule);

}  // namespace athanor
