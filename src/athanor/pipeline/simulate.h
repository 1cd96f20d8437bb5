// What a schedule would do with given times: when each action runs, how long ranks wait, how much they hold.
//
//   Simulation run = simulate(schedule, uniform_costs(schedule, {.forward = 1, .input = 1, .weight = 1}));
//   run.makespan, run.bubble_share, run.peak_activations[0], run.timeline[rank][k].start
//
// A rank does its actions in order; each starts when the one before it has ended and what it needs has
// arrived: at once from a stage of the same rank, `link` after its end from another rank. Sends are
// buffered and cost the sender nothing, as in pipeline/execute.h. Times are in any one unit. Memory: a
// stage holds `activation` units of a micro-batch from the start of its F to the end of its B or W. Errors:
// Error where the schedule deadlocks (naming each rank's action and what it waits for) or the costs are not
// one per stage. The schedule is taken to be valid otherwise. Thread rule: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "athanor/pipeline/schedule.h"

namespace athanor {

// Of one stage and one micro-batch.
struct StageCost {
  double forward = 1.0, input = 1.0, weight = 1.0;  // time of F, I, W; B takes I + W
  double activation = 1.0;                          // memory, in any unit
};
double duration(const StageCost& cost, Act act);

struct Costs {
  std::vector<StageCost> stages;
  double link = 0.0;  // time from one rank to another
};
Costs uniform_costs(const Schedule& schedule, const StageCost& stage, double link = 0.0);

struct Event {
  Action action;
  double start = 0.0, end = 0.0;
};

struct Simulation {
  double makespan = 0.0;                     // from the first start to the last end
  double bubble = 0.0;                       // makespan less the work of the busiest rank
  double bubble_share = 0.0;                 // of all ranks' time, that in which they do nothing
  std::vector<double> busy;                  // of each rank
  std::vector<double> waits;                 // of each rank, between its first and its last action
  std::vector<double> peak_activations;      // of each rank
  std::vector<std::vector<Event>> timeline;  // of each rank, in order
};

Simulation simulate(const Schedule& schedule, const Costs& costs);

// Visits all actions in an order that respects the ranks' order and every dependency, rank by rank as far
// as each can go. Error naming what each rank waits for if that ends before the actions do: a deadlock.
void walk(const Schedule& schedule, const std::function<void(int rank, const Action&)>& visit);

}  // namespace athanor
