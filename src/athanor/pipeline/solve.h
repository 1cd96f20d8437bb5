// Finds a schedule for measured times and a memory limit (auto schedule).
//
//   const Solution best = solve({.ranks = 4, .micro_batches = 16, .costs = measured, .memory_limit = 6});
//   print(best.schedule, best.run.makespan, best.made_from);      // "zb-h1, weights in gaps"
//
// Candidates: the known schedules; the known schedules with weight gradients moved into the gaps that these times
// leave; and list schedules, where a free rank takes the action that a rule prefers among those that can start and fit
// into memory, for a grid of rules, limits and placements. All candidates are simulated, and the shortest within the
// memory limit wins; among equals the one with the lower peaks in total, then the earlier one. The result is never
// longer than 1F1B or ZB-H1 within the same limit; with several stages per rank these are candidates on blocks of
// stages. Filling gaps with weight gradients is the idea of Qi et al. (2023), who use integer programming.
//
// Memory is counted as in pipeline/simulate.h. Deterministic. Errors: ConfigError for illegal counts, and for a limit
// below one micro-batch on each of a rank's stages. Thread rule: pure.
#pragma once

#include <optional>
#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor::pipeline {

struct SolveRequest {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 1;     // stages per rank
  Costs costs;                // one per stage: ranks * virtual_stages
  double memory_limit = 0.0;  // per rank, in the unit of StageCost::activation; 0: none
};

struct Solution {
  Schedule schedule;  // named "auto"
  Simulation run;
  std::string made_from;
};

Solution solve(const SolveRequest& request);

// The rules of a list schedule (solve_list.cpp).
struct ListRules {
  std::vector<int> rank_of_stage;
  const Schedule* order = nullptr;  // fixes the order of F and input gradients; null: the rules below decide
  bool forward_first = false;       // prefer a forward to an input gradient
  bool furthest_first = true;  // of two actions of a kind, prefer the one closer to the end of the pipeline
  double least_gap = 0.0;      // a gap is filled if it is at least this share of a weight gradient's time
  double memory_limit = 0.0;   // 0: none
};
// None where the rules find no schedule because the order needs more memory than the limit.
std::optional<Schedule> list_schedule(const SolveRequest& request, const ListRules& rules);

}  // namespace athanor::pipeline
