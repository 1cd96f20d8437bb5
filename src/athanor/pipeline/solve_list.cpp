#include <algorithm>
#include <limits>

#include "athanor/pipeline/solve.h"

namespace athanor::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Simulates the step in the order of time, choosing actions on the way. The actions that can start on a rank are always
// known, because every action chosen later also ends later.
class ListScheduler {
 public:
  ListScheduler(const SolveRequest& request, const ListRules& rules)
      : request_(request),
        rules_(rules),
        stages_(rules.rank_of_stage.size()),
        ranks_(static_cast<size_t>(request.ranks)),
        schedule_{"auto", rules.rank_of_stage, request.micro_batches, {}} {
    schedule_.ranks.resize(ranks_.size());
    const auto micro_batches = static_cast<size_t>(request.micro_batches);
    for (size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].forward_ready.assign(micro_batches, s == 0 ? 0.0 : kNever);
      stages_[s].input_ready.assign(micro_batches, kNever);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].stages = schedule_.stages_of(static_cast<int>(r));
      double later = 0.0;  // memory that a micro-batch will need on this rank's later stages: reserved for it
      for (size_t k = ranks_[r].stages.size(); k-- > 0;) {
        Stage& stage = at(ranks_[r].stages[k]);
        stage.reserve = later;
        later += cost(ranks_[r].stages[k]).activation;
      }
      if (rules.order == nullptr) continue;
      for (const Action& action : rules.order->ranks[r])
        if (action.act != Act::weight_grad)
          ranks_[r].order.push_back({makes_input_grad(action.act) ? Act::input_grad : Act::forward,
                                     action.stage, action.micro_batch});
    }
  }

  std::optional<Schedule> run() {
    size_t left = 3 * stages_.size() * static_cast<size_t>(request_.micro_batches);
    for (; left > 0; --left) {
      size_t first = 0;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].stale) decide(ranks_[r]);
        if (ranks_[r].next.start < ranks_[first].next.start) first = r;
      }
      if (ranks_[first].next.start == kNever) return std::nullopt;
      carry_out(first);
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    std::vector<double> forward_ready, input_ready;  // of each micro-batch, on this stage's rank
    int forward = 0, input = 0, weight = 0;          // the next micro-batch of each kind
    double reserve = 0.0;
  };
  struct Choice {
    double start = kNever;
    Action action;
  };
  struct Rank {
    std::vector<int> stages;
    std::vector<Action> order;
    size_t done_of_order = 0;
    double free_at = 0.0, held = 0.0;
    bool stale = true;
    Choice next;
  };

  Stage& at(int stage) { return stages_[static_cast<size_t>(stage)]; }
  const StageCost& cost(int stage) const { return request_.costs.stages[static_cast<size_t>(stage)]; }

  bool fits(const Rank& rank, int stage) {
    return rules_.memory_limit <= 0.0 ||
           rank.held + cost(stage).activation + at(stage).reserve <= rules_.memory_limit;
  }

  // Whether action a, which can start no later than b, is preferred to b.
  bool better(const Choice& a, const Choice& b) const {
    if (a.start != b.start) return a.start < b.start;
    if (a.action.act != b.action.act) return (a.action.act == Act::forward) == rules_.forward_first;
    const bool further = (a.action.act == Act::forward) == (a.action.stage > b.action.stage);
    return further == rules_.furthest_first;
  }

  void offer(const Rank& rank, Act act, int stage, Choice& best) {
    const Stage& state = at(stage);
    const int micro = act == Act::forward ? state.forward : state.input;
    if (micro == request_.micro_batches || (act == Act::forward && !fits(rank, stage))) return;
    const double ready =
        (act == Act::forward ? state.forward_ready : state.input_ready)[static_cast<size_t>(micro)];
    const Choice choice{std::max(rank.free_at, ready), {act, stage, micro}};
    if (ready < kNever && (best.start == kNever || better(choice, best))) best = choice;
  }

  void decide(Rank& rank) {
    rank.stale = false;
    Choice best;
    if (rules_.order != nullptr) {
      if (rank.done_of_order < rank.order.size()) {
        const Action& action = rank.order[rank.done_of_order];
        offer(rank, action.act, action.stage, best);
      }
    } else {
      for (const int stage : rank.stages)
        for (const Act act : {Act::forward, Act::input_grad}) offer(rank, act, stage, best);
    }
    Choice weight;
    for (const int stage : rank.stages) {
      const Stage& state = at(stage);
      if (state.weight < state.input && (weight.start == kNever || state.weight <= weight.action.micro_batch))
        weight = {rank.free_at, {Act::weight_grad, stage, state.weight}};
    }
    const bool gap = weight.start < kNever &&
                     (best.start == kNever ||
                      best.start - rank.free_at > rules_.least_gap * cost(weight.action.stage).weight);
    rank.next = gap && best.start > rank.free_at ? weight : best;
  }

  void carry_out(size_t r) {
    Rank& rank = ranks_[r];
    const Choice choice = rank.next;
    const auto& [act, stage, micro] = choice.action;
    Stage& state = at(stage);
    rank.free_at = choice.start + duration(cost(stage), act);
    rank.stale = true;
    schedule_.ranks[r].push_back(choice.action);
    if (act == Act::weight_grad) {
      ++state.weight;
      rank.held -= cost(stage).activation;
      return;
    }
    if (rules_.order != nullptr) ++rank.done_of_order;
    if (act == Act::input_grad) {
      ++state.input;
      if (stage > 0) arrive(at(stage - 1).input_ready, stage - 1, r, micro);
      return;
    }
    ++state.forward;
    rank.held += cost(stage).activation;
    if (stage + 1 < static_cast<int>(stages_.size())) {
      arrive(at(stage + 1).forward_ready, stage + 1, r, micro);
    } else {
      state.input_ready[static_cast<size_t>(micro)] = rank.free_at;
    }
  }

  void arrive(std::vector<double>& ready, int stage, size_t from, int micro) {
    const auto to = static_cast<size_t>(rules_.rank_of_stage[static_cast<size_t>(stage)]);
    ready[static_cast<size_t>(micro)] = ranks_[from].free_at + (to == from ? 0.0 : request_.costs.link);
    ranks_[to].stale = true;
  }

  const SolveRequest& request_;
  const ListRules& rules_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  Schedule schedule_;
};

}  // namespace

std::optional<Schedule> list_schedule(const SolveRequest& request, const ListRules& rules) {
  return ListScheduler(request, rules).run();
}

}  // namespace athanor::pipeline
