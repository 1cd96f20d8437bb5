// Executes a schedule on one rank: its actions in order, with activations and gradients sent between stages.
//
//   Executor executor(schedule, stages_of_this_rank, group, arena);
//   executor.run();                                       // a step: every micro-batch through every stage
//
// Stages on one rank pass tensors directly. Between ranks each tensor is a point-to-point message of the group, whose
// rank numbers are those of the schedule. Sends proceed while the rank computes. Receives are posted ahead, in the
// sender's order, so that an early message has a buffer. A received tensor is freed by the stage that got it, a sent
// one when its send is complete. The executor follows the schedule's order exactly, so gradients have the bits of one
// process (law 1).
//
// Errors: those of the stages and of the group. A rank that fails aborts the group, so that other ranks do not wait for
// its messages. Memory: receive buffers are the arena's, as Stage::inputs() and outputs() say. A memory plan runs one
// rank's schedule on the null device with a null group (comm/null.h). Thread rule: one thread per executor. While it
// runs, only the executor may use the group's point-to-point messages.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/trace.h"
#include "athanor/comm/group.h"
#include "athanor/pipeline/schedule.h"
#include "athanor/pipeline/stage.h"

namespace athanor::pipeline {

struct ExecutorOptions {
  int receives_ahead = 1;  // receives posted per sending rank beyond what is needed next
  Trace* trace = nullptr;
  std::function<void(const Action&)> after_action;  // null: nobody
  std::function<double()> clock = now_seconds;      // of wait_seconds()
};

class Executor {
 public:
  // The schedule must be valid. `stages`: this rank's stages, in the order of schedule.stages_of(group.rank()).
  Executor(Schedule schedule, const std::vector<Stage*>& stages, Group& group, Arena& arena,
           ExecutorOptions options = {});

  void run();
  const Schedule& schedule() const { return schedule_; }
  // Seconds of the last run in which this rank waited for others.
  double wait_seconds() const { return wait_seconds_; }

 private:
  // What one stage sends another: the inputs of `stage`, or the gradients of its outputs, for one micro-batch.
  struct Message {
    int stage = 0;
    bool is_gradient = false;
    int micro_batch = 0;
    bool operator<(const Message& other) const {
      return std::tie(stage, is_gradient, micro_batch) <
             std::tie(other.stage, other.is_gradient, other.micro_batch);
    }
  };
  struct Incoming {
    std::vector<Message> messages;  // all messages from another rank, in its sending order
    size_t posted = 0;              // how many of them have a receive posted
  };
  struct Transfer {
    std::vector<Tensor> tensors;
    std::vector<Work>
        works;  // declared last, so destroyed first: they may wait until the tensors are written
    bool done() const;
    void wait();              // throws if one failed
    void wait(Queue& queue);  // for the queue to use what was received
  };

  void execute(const Action& action);
  void post(int rank, size_t count);
  std::vector<Tensor> receive(const Message& message);
  void send(const Message& message, const std::vector<TensorSpec>& specs, std::vector<Tensor> tensors);
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  Schedule schedule_;
  Group& group_;
  Arena& arena_;
  ExecutorOptions options_;
  std::map<int, Stage*> stages_;        // by stage number
  std::map<int, Incoming> incoming_;    // by sending rank
  std::map<Message, size_t> position_;  // index in Incoming::messages
  std::map<Message, Transfer> received_;
  std::list<Transfer> sends_;
  double wait_seconds_ = 0.0;
};

}  // namespace athanor::pipeline
