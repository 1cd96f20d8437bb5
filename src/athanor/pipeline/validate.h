// Checks that a schedule may be executed: its counts are legal, every stage runs every micro-batch exactly once, every
// action comes after its inputs, and no rank waits forever (sends being buffered).
//
//   validate(load_schedule(env, "mine.csv"));
//
// It also checks that every stage runs F, I (or B) and W over the micro-batches in order. In that order one process
// sums gradients (law 1), and messages between two stages are matched. Errors: Error naming the rank, the action and
// the fault. Thread rule: pure.
#pragma once

#include "athanor/pipeline/schedule.h"

namespace athanor::pipeline {

void validate(const Schedule& schedule);

}  // namespace athanor::pipeline
