// Makes a schedule for measured times and a limit on memory.
//
//   const Solution best = solve({.ranks = 4, .micro_batches = 16, .costs = measured, .memory_limit = 6});
//   best.schedule, best.run.makespan, best.made_from      // "zb-h1, weights in gaps"
//
// Candidates are the known schedules; the known schedules with their weight gradients moved to where these
// times leave gaps; and list schedules: whenever a rank is free it takes the action that a rule prefers of
// those that can start and whose memory fits, for a grid of rules, limits and placements. All are
// simulated, and of those within the limit the shortest is taken; of equals the one that holds less, then
// the earlier. So the result is never longer than 1F1B or ZB-H1 within the same limit: with several stages
// of a rank these are among the candidates too, on whole blocks of stages. Where gaps may be filled by
// weight gradients is the idea of Qi et al. (2023), who solve for it by integer programming.
//
// Memory is counted as in pipeline/simulate.h. Deterministic. Errors: ConfigError for illegal counts and
// for a limit below one micro-batch on each of a rank's stages. Thread rule: pure.
#pragma once

#include <optional>
#include <string>

#include "athanor/pipeline/simulate.h"

namespace athanor {

struct SolveRequest {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 1;     // stages of a rank
  Costs costs;                // one per stage: ranks * virtual_stages
  double memory_limit = 0.0;  // of a rank, in the unit of the costs' activations; 0: none
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
  const Schedule* order =
      nullptr;                 // F and input gradients come in this schedule's order; null: as the rules say
  bool forward_first = false;  // of a forward and an input gradient that can both start
  bool furthest_first = true;  // of two of a kind, the one closer to its end
  double least_gap = 0.0;     // the share of a weight gradient's time that a gap must have to be filled by it
  double memory_limit = 0.0;  // 0: none
};
// Nothing where the rules lead nowhere: the order needs more memory than the limit.
std::optional<Schedule> list_schedule(const SolveRequest& request, const ListRules& rules);

}  // namespace athanor
