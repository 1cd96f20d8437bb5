#include "athanor/pipeline/solve.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "athanor/base/check.h"
#include "athanor/pipeline/validate.h"

namespace athanor::pipeline {
namespace {

// Tolerance for rounding in sums of many activations.
constexpr double kRounding = 1e-9;

// Turns a schedule with one stage per rank into one with a block of stages per rank: each action becomes one action per
// stage of the block, forwards in stage order, gradients in reverse.
Schedule in_blocks(const Schedule& schedule, int virtual_stages) {
  Schedule blocks = schedule;
  blocks.rank_of_stage = block_placement(schedule.num_ranks(), virtual_stages);
  for (size_t r = 0; r < blocks.ranks.size(); ++r) {
    blocks.ranks[r].clear();
    for (const auto& [act, stage, micro] : schedule.ranks[r])
      for (int k = 0; k < virtual_stages; ++k) {
        const int inner = act == Act::forward ? k : virtual_stages - 1 - k;
        blocks.ranks[r].push_back({act, stage * virtual_stages + inner, micro});
      }
  }
  return blocks;
}

std::vector<Schedule> known_candidates(const SolveRequest& request) {
  std::vector<Schedule> all;
  const int v = request.virtual_stages;
  for (const std::string& name : schedule_names()) {
    const ScheduleShape shape{request.ranks, request.micro_batches, v};
    if (v > 1 && default_virtual_stages(name) == 1 && name != "bfs") {
      Schedule blocks = in_blocks(make_schedule(name, {request.ranks, request.micro_batches, 1}), v);
      blocks.name = name + " in blocks";
      all.push_back(std::move(blocks));
      continue;
    }
    try {
      all.push_back(make_schedule(name, shape));
    } catch (const ConfigError&) {
      continue;  // the schedule does not support this number of stages per rank
    }
  }
  return all;
}

// The least memory limit that a placement needs: one micro-batch on all stages of a rank, for the worst rank.
double least_limit(const SolveRequest& request, const std::vector<int>& placement) {
  std::vector<double> held(static_cast<size_t>(request.ranks), 0.0);
  for (size_t stage = 0; stage < placement.size(); ++stage)
    held[static_cast<size_t>(placement[stage])] += request.costs.stages[stage].activation;
  return *std::max_element(held.begin(), held.end());
}

class Best {
 public:
  explicit Best(const SolveRequest& request) : request_(request) {}

  void offer(const Schedule& schedule, const std::string& made_from) {
    Simulation run = simulate(schedule, request_.costs);
    const double peak = *std::max_element(run.peak_activations.begin(), run.peak_activations.end());
    if (request_.memory_limit > 0.0 && peak > request_.memory_limit * (1.0 + kRounding)) return;
    const double held = std::accumulate(run.peak_activations.begin(), run.peak_activations.end(), 0.0);
    const bool better = best_.made_from.empty() || run.makespan < best_.run.makespan ||
                        (run.makespan == best_.run.makespan && held < held_);
    if (!better) return;
    best_ = {schedule, std::move(run), made_from};
    held_ = held;
  }
  Solution take() {
    check(!best_.made_from.empty(), "schedule: no candidate fits into {}", request_.memory_limit);
    best_.schedule.name = "auto";
    validate(best_.schedule);
    return std::move(best_);
  }

 private:
  const SolveRequest& request_;
  Solution best_;
  double held_ = 0.0;
};

void check_request(const SolveRequest& request) {
  check_shape({request.ranks, request.micro_batches, request.virtual_stages});
  const int stages = request.ranks * request.virtual_stages;
  if (static_cast<int>(request.costs.stages.size()) != stages)
    throw ConfigError(fmt::format("schedule: got the times of {} stages, expected {}",
                                  request.costs.stages.size(), stages));
  const auto legal = [](double value) { return std::isfinite(value) && value >= 0.0; };
  bool all_legal = legal(request.costs.link) && legal(request.memory_limit);
  for (const StageCost& c : request.costs.stages)
    all_legal = all_legal && legal(c.forward) && legal(c.input) && legal(c.weight) && legal(c.activation);
  if (!all_legal)
    throw ConfigError("schedule: got a negative or infinite time or size, expected finite ones from 0 on");
}

}  // namespace

Solution solve(const SolveRequest& request) {
  check_request(request);
  const int p = request.ranks, v = request.virtual_stages;
  std::set<std::vector<int>> placements = {loop_placement(p, v), v_placement(p, v), block_placement(p, v)};
  double least = std::numeric_limits<double>::infinity();
  for (const auto& placement : placements) least = std::min(least, least_limit(request, placement));
  if (request.memory_limit > 0.0 && request.memory_limit < least)
    throw ConfigError(
        fmt::format("schedule: got a memory limit of {}, expected at least {}: one micro-batch on each "
                    "of a rank's stages",
                    request.memory_limit, least));
  Best best(request);
  const std::vector<Schedule> known = known_candidates(request);
  for (const Schedule& schedule : known) best.offer(schedule, schedule.name);

  const auto offer_list = [&](const ListRules& rules, const std::string& made_from) {
    if (const auto schedule = list_schedule(request, rules)) best.offer(*schedule, made_from);
  };
  constexpr double kGaps[] = {0.0, 0.5, 0.999};
  for (const Schedule& schedule : known)
    for (const double gap : kGaps)
      offer_list({.rank_of_stage = schedule.rank_of_stage,
                  .order = &schedule,
                  .least_gap = gap,
                  .memory_limit = request.memory_limit},
                 schedule.name + ", weights in gaps");
  for (const auto& placement : placements) {
    const double one = least_limit(request, placement);
    // Limits to try: 1F1B's memory, the memory that hides every weight gradient, and all that is allowed.
    std::set<double> limits = {request.memory_limit};
    for (const double micro_batches : {1.0 * p, 1.5 * p, 2.0 * p})
      if (request.memory_limit <= 0.0 || micro_batches * one < request.memory_limit)
        limits.insert(micro_batches * one);
    for (const double limit : limits)
      for (const double gap : kGaps)
        for (const bool forward_first : {false, true})
          for (const bool furthest_first : {true, false})
            offer_list({placement, nullptr, forward_first, furthest_first, gap, limit}, "list");
  }
  return best.take();
}

}  // namespace athanor::pipeline
