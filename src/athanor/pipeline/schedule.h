// Pipeline schedules as values: the ordered list of actions of each rank. A schedule is made, validated, simulated and
// printed before it is executed (law 6); it refers to no tensors and no groups.
//
//   Schedule schedule = make_schedule("zb-v", {.ranks = 4, .micro_batches = 8});
//   validate(schedule);                                              // pipeline/validate.h
//   Simulation run = simulate(schedule, uniform_costs(schedule, {}));   // pipeline/simulate.h
//
// The model is partitioned into stages 0 ... S-1, each on one rank; a step has micro-batches 0 ... m-1. An action is
// written as stage, letter and micro-batch, "2F0", as in torch.distributed.pipelining:
//   F  forward
//   B  backward: the gradients of the input and of the weights
//   I  input gradient, the first half of B; the stage before waits for it
//   W  weight gradient, the second half of B; no other stage waits for it, so it can fill gaps
// Every stage runs F, I and W over the micro-batches in order, so gradients are summed in the order of one process
// (law 1). Sends are buffered: a rank does not wait for the receiver.
//
// Errors: ConfigError for unknown names and for counts that a schedule does not support. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::pipeline {

enum class Act : char { forward = 'F', backward = 'B', input_grad = 'I', weight_grad = 'W' };

struct Action {
  Act act = Act::forward;
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};
std::string str(const Action& action);  // "2F0"

// Whether the action makes the gradient that the stage before waits for.
constexpr bool makes_input_grad(Act act) {
  return act == Act::backward || act == Act::input_grad;
}
// Whether the micro-batch's activations are free when the action has ended.
constexpr bool frees_activations(Act act) {
  return act == Act::backward || act == Act::weight_grad;
}

struct Schedule {
  std::string name;
  std::vector<int> rank_of_stage;  // [stages]
  int micro_batches = 0;
  std::vector<std::vector<Action>> ranks;  // of each rank, in order

  int num_ranks() const { return static_cast<int>(ranks.size()); }
  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }
  std::vector<int> stages_of(int rank) const;  // ascending
  bool operator==(const Schedule&) const = default;
};

// rank_of_stage for the placements loop, V (continued as a zigzag) and block. Four stages on two ranks: 0,1,0,1;
// 0,1,1,0; 0,0,1,1.
std::vector<int> loop_placement(int ranks, int virtual_stages);
std::vector<int> v_placement(int ranks, int virtual_stages);
std::vector<int> block_placement(int ranks, int virtual_stages);

struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 0;  // stages per rank; 0: default_virtual_stages()
};

// The schedules that have a name: gpipe, 1f1b, interleaved, bfs, zb-h1, zb-v, dualpipe-v.
const std::vector<std::string>& schedule_names();
int default_virtual_stages(const std::string& name);  // 2 for interleaved, zb-v and dualpipe-v, else 1
// ConfigError where the schedule has no such shape. Every number of micro-batches is legal: a schedule that supports
// only certain numbers is made for the next such number, and the surplus micro-batches are removed.
Schedule make_schedule(const std::string& name, ScheduleShape shape);

// Upper limit of stages x micro-batches: larger schedules would not fit into memory.
constexpr int64_t kMaxStageMicroBatches = int64_t{1} << 22;
void check_shape(const ScheduleShape& shape);  // ConfigError: counts below 1 or too many

// The schedule without micro-batches `micro_batches` and later. Actions depend only on actions of the same micro-batch,
// so it stays free of deadlocks.
Schedule without_surplus(Schedule schedule, int micro_batches);

}  // namespace athanor::pipeline
