// Simulates a schedule with given times: when each action runs, how long ranks wait, how much memory they hold.
//
//   Simulation run = simulate(schedule, uniform_costs(schedule, {.forward = 1, .input = 1, .weight = 1}));
//   print(run.makespan, run.bubble_share, run.peak_activations[0], run.timeline[rank][k].start);
//
// A rank runs its actions in order. An action starts when the previous one has ended and its inputs have arrived:
// immediately from a stage of the same rank, `link` after the producer's end from another rank. Sends are buffered and
// take no time of the sender, as in pipeline/execute.h. Times are in any unit. Memory: a stage holds `activation` units
// per micro-batch from the start of its F to the end of its B or W. Errors: Error where the schedule deadlocks (naming
// each rank's action and what it waits for), or where costs are not one per stage; otherwise the schedule must be
// valid. Thread rule: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "athanor/pipeline/schedule.h"

namespace athanor::pipeline {

// Costs of one micro-batch on one stage.
struct StageCost {
  double forward = 1.0, input = 1.0, weight = 1.0;  // time of F, I, W; B takes I + W
  double activation = 1.0;                          // memory, in any unit
};
double duration(const StageCost& cost, Act act);

struct Costs {
  std::vector<StageCost> stages;
  double link = 0.0;  // time of a message between two ranks
};
Costs uniform_costs(const Schedule& schedule, const StageCost& stage, double link = 0.0);

struct Event {
  Action action;
  double start = 0.0, end = 0.0;
};

struct Simulation {
  double makespan = 0.0;                     // from the first start to the last end
  double bubble = 0.0;                       // makespan minus the work of the busiest rank
  double bubble_share = 0.0;                 // idle time / total time, over all ranks
  std::vector<double> busy;                  // by rank: time of its actions
  std::vector<double> waits;                 // by rank: idle time between its first and its last action
  std::vector<double> peak_activations;      // by rank
  std::vector<std::vector<Event>> timeline;  // by rank, in order
};

Simulation simulate(const Schedule& schedule, const Costs& costs);

// Visits all actions in an order that respects each rank's order and every dependency. Error on a deadlock, naming what
// each rank waits for.
void walk(const Schedule& schedule, const std::function<void(int rank, const Action&)>& visit);

}  // namespace athanor::pipeline
