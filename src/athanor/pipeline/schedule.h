// Pipeline schedules as values: what each rank does, in order. A schedule is made, validated, simulated,
// printed, compared and only then executed (law 6); it knows no tensors and no groups.
//
//   Schedule schedule = make_schedule("zb-v", {.ranks = 4, .micro_batches = 8});
//   validate(schedule);                                              // pipeline/validate.h
//   Simulation run = simulate(schedule, uniform_costs(schedule, {}));   // pipeline/simulate.h
//
// The model is cut into stages 0 ... S-1, each on one rank; a step has micro-batches 0 ... m-1. An action
// is written as its stage, a letter and its micro-batch, "2F0", the notation of
// torch.distributed.pipelining:
//   F  forward
//   B  backward: the gradients of the input and of the weights
//   I  the first half of it, what the stage before waits for
//   W  the second half, which nobody waits for: it fills gaps
// On every stage F, I and W go through the micro-batches in their order, so gradients are summed in the
// order of one process (law 1). Sends are buffered: a rank that has sent goes on.
//
// Errors: ConfigError for unknown names and for counts that a schedule is not made for. Thread rule: plain
// data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

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

// Stages in the order of the model, four on two ranks: 0,1,0,1; 0,1,1,0 (a V, and on in zigzag); 0,0,1,1.
std::vector<int> loop_placement(int ranks, int virtual_stages);
std::vector<int> v_placement(int ranks, int virtual_stages);
std::vector<int> block_placement(int ranks, int virtual_stages);

struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 0;  // stages of a rank; 0: default_virtual_stages()
};

// The schedules that have a name: gpipe, 1f1b, interleaved, bfs, zb-h1, zb-v, dualpipe-v.
const std::vector<std::string>& schedule_names();
int default_virtual_stages(const std::string& name);  // 2 for interleaved, zb-v and dualpipe-v, else 1
// ConfigError where the schedule has no such shape. Every number of micro-batches is legal: where a
// schedule is made for certain numbers, it is made for the next one and the surplus micro-batches are left
// out.
Schedule make_schedule(const std::string& name, ScheduleShape shape);

// More actions than this make no sense on any machine and would not fit into memory.
constexpr int64_t kMaxStageMicroBatches = int64_t{1} << 22;
void check_shape(const ScheduleShape& shape);  // ConfigError: counts below 1 or too many

// The schedule without the micro-batches from `micro_batches` on. What depends on what is within a
// micro-batch, so it stays free of deadlocks.
Schedule without_surplus(Schedule schedule, int micro_batches);

}  // namespace athanor
