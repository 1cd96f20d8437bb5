#include "athanor/pipeline/simulate.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::pipeline {
namespace {

// The result of another stage that `action` needs. Dependencies within a stage are met by the rank's order.
bool has_outside_need(const Schedule& schedule, const Action& action) {
  return (action.act == Act::forward && action.stage > 0) ||
         (makes_input_grad(action.act) && action.stage + 1 < schedule.num_stages());
}
int stage_needed(const Action& action) {
  return action.act == Act::forward ? action.stage - 1 : action.stage + 1;
}

// The time at which a result was ready, for each stage and micro-batch.
class Times {
 public:
  explicit Times(const Schedule& schedule)
      : columns_(static_cast<size_t>(schedule.micro_batches)),
        values_(static_cast<size_t>(schedule.num_stages()) * columns_, 0.0) {}
  double& at(int stage, int micro_batch) {
    return values_[static_cast<size_t>(stage) * columns_ + static_cast<size_t>(micro_batch)];
  }

 private:
  size_t columns_;
  std::vector<double> values_;
};

[[noreturn]] void fail_deadlock(const Schedule& schedule, const std::vector<size_t>& next) {
  std::string stuck;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    if (next[r] == schedule.ranks[r].size()) continue;
    const Action& action = schedule.ranks[r][next[r]];
    const int from = stage_needed(action);
    stuck += fmt::format("{}rank {} waits at its action {}, {}, for stage {} on rank {}",
                         stuck.empty() ? "" : "; ", rank, next[r], str(action), from,
                         schedule.rank_of_stage[static_cast<size_t>(from)]);
  }
  fail("schedule '{}': deadlock: {}", schedule.name, stuck);
}

}  // namespace

double duration(const StageCost& cost, Act act) {
  switch (act) {
    case Act::forward:
      return cost.forward;
    case Act::backward:
      return cost.input + cost.weight;
    case Act::input_grad:
      return cost.input;
    case Act::weight_grad:
      return cost.weight;
  }
  return 0.0;
}

Costs uniform_costs(const Schedule& schedule, const StageCost& stage, double link) {
  return {std::vector<StageCost>(schedule.rank_of_stage.size(), stage), link};
}

void walk(const Schedule& schedule, const std::function<void(int, const Action&)>& visit) {
  std::vector<int> forward(schedule.rank_of_stage.size(), 0), backward(forward);  // micro-batches done
  std::vector<size_t> next(schedule.ranks.size(), 0);
  bool moved = true, left = true;
  while (moved && left) {
    moved = left = false;
    for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
      const auto& actions = schedule.ranks[static_cast<size_t>(rank)];
      size_t& k = next[static_cast<size_t>(rank)];
      for (; k < actions.size(); ++k) {
        const Action& action = actions[k];
        std::vector<int>& made = action.act == Act::forward ? forward : backward;
        if (has_outside_need(schedule, action) &&
            made[static_cast<size_t>(stage_needed(action))] <= action.micro_batch)
          break;
        visit(rank, action);
        if (action.act != Act::weight_grad) ++made[static_cast<size_t>(action.stage)];
        moved = true;
      }
      left = left || k < actions.size();
    }
  }
  if (left) fail_deadlock(schedule, next);
}

Simulation simulate(const Schedule& schedule, const Costs& costs) {
  check(static_cast<int>(costs.stages.size()) == schedule.num_stages(),
        "schedule '{}': got the costs of {} stages, expected {}", schedule.name, costs.stages.size(),
        schedule.num_stages());
  const auto ranks = schedule.ranks.size();
  Simulation run;
  run.busy.resize(ranks);
  run.waits.resize(ranks);
  run.peak_activations.resize(ranks);
  run.timeline.resize(ranks);
  Times forward(schedule), backward(schedule);
  std::vector<double> held(ranks, 0.0);
  walk(schedule, [&](int rank, const Action& action) {
    const auto r = static_cast<size_t>(rank);
    const StageCost& cost = costs.stages[static_cast<size_t>(action.stage)];
    Times& made = action.act == Act::forward ? forward : backward;
    const double free = run.timeline[r].empty() ? 0.0 : run.timeline[r].back().end;
    double start = free;
    if (has_outside_need(schedule, action)) {
      const int from = stage_needed(action);
      const bool far = schedule.rank_of_stage[static_cast<size_t>(from)] != rank;
      start = std::max(start, made.at(from, action.micro_batch) + (far ? costs.link : 0.0));
    }
    const double length = duration(cost, action.act), end = start + length;
    if (action.act != Act::weight_grad) made.at(action.stage, action.micro_batch) = end;
    if (action.act == Act::forward) held[r] += cost.activation;
    run.peak_activations[r] = std::max(run.peak_activations[r], held[r]);
    if (frees_activations(action.act)) held[r] -= cost.activation;
    if (!run.timeline[r].empty()) run.waits[r] += start - free;
    run.busy[r] += length;
    run.makespan = std::max(run.makespan, end);
    run.timeline[r].push_back({action, start, end});
  });
  double all_busy = 0.0, most_busy = 0.0;
  for (const double busy : run.busy) {
    all_busy += busy;
    most_busy = std::max(most_busy, busy);
  }
  run.bubble = run.makespan - most_busy;
  if (run.makespan > 0.0) run.bubble_share = 1.0 - all_busy / (run.makespan * static_cast<double>(ranks));
  return run;
}

}  // namespace athanor::pipeline
