// The life of a job as its master is told it, and what a Master decides by each input.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/launch/master/master_inputs.h"

namespace athanor::tests {

constexpr int64_t kLifeMs = 1'000'000;

inline MasterOptions life_options() {
  return {.num_ranks = 2, .max_restarts = 10, .max_ranks = 3, .grace_ns = 1000 * kLifeMs};
}

// A job with every kind of input: a death, an order, a change of size, a stop.
inline std::vector<MasterInput> life() {
  std::vector<MasterInput> inputs;
  int64_t now = 5000 * kLifeMs;
  const auto add = [&](auto what) { inputs.push_back({now += kLifeMs, std::move(what)}); };
  const auto said = [&](int worker, control::WorkerMessage message) {
    add(WorkerSaid{worker, std::move(message)});
  };
  const std::string job(control::kJobDigits, 'a');
  const auto comes = [&](int worker) {
    said(worker, control::Hello{.job = job, .worker = worker, .pid = 100 + worker});
    said(worker, control::Ready{.generation = -1, .why = "the start"});
  };
  const auto back = [&](int worker, int64_t generation) {
    said(worker, control::Ready{.generation = generation, .why = "rank 1 was lost"});
  };
  const auto begun = [&](int64_t generation, int64_t step) {
    said(0, control::Begun{.generation = generation, .step = step, .run_folder = "runs/t"});
  };
  add(Started{});
  comes(0);
  comes(1);
  begun(0, 0);
  said(0, control::Progress{.generation = 0, .step = 7, .count = 7});
  add(WorkerExited{1, {.signal_number = SIGKILL, .how = "was killed by signal 9 (SIGKILL)", .seen_ns = now}});
  back(0, 0);
  comes(2);
  begun(1, 7);
  add(OrderAsked{{.save = true}});
  back(0, 1);
  back(2, 1);
  begun(2, 7);
  said(0, control::Saved{.generation = 2, .step = 7, .path = "step_00000007"});
  add(ScaleAsked{3});
  add(ScaleAsked{9});
  comes(3);
  back(0, 2);
  back(2, 2);
  begun(3, 7);
  add(OrderAsked{{.set = "optimizer.lr=1e-3"}});
  back(0, 3);
  back(2, 3);
  back(3, 3);
  begun(4, 7);
  add(OrderAsked{{.save = true}});  // refused until a step is done with the setting
  said(0, control::Progress{.generation = 4, .step = 8, .count = 8});
  add(OrderAsked{{.rollback_step = 5}});
  back(0, 4);
  back(2, 4);
  back(3, 4);
  begun(5, 5);
  add(StopAsked{SIGTERM, false});
  said(3, control::Farewell{.status = control::Status::interrupted});
  add(WorkerExited{3, {.exit_code = 75, .how = "exited with code 75"}});
  add(Ticked{});
  add(WorkerExited{2, {.exit_code = 75, .how = "exited with code 75"}});
  add(WorkerExited{0, {.exit_code = 75, .how = "exited with code 75"}});
  return inputs;
}

// What it answers and wants done, as text.
inline std::vector<std::string> decisions(Master& master, const MasterInput& input) {
  std::vector<std::string> all = {tell(master, input)};
  for (const MasterAction& action : master.take_actions()) all.push_back(encode(action));
  return all;
}

}  // namespace athanor::tests
