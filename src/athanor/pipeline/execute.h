// Executes a schedule: one rank's actions in their order, activations and gradients passed on between stages.
//
//   Executor executor(schedule, stages_of_this_rank, group);
//   executor.run();                                       // a step: every micro-batch through every stage
//
// Stages of one rank hand tensors over as they are. Between ranks they are sent through the group, whose
// rank numbers are those of the schedule. Sends go on while the rank computes; receives are posted ahead,
// in the order in which the sender sends, so that what comes early has a place to go. What has been
// received is freed by the stage that got it, what is sent when it has arrived. The executor adds nothing
// to the order of the schedule, so gradients have the bits of one process (law 1).
//
// Errors: those of the stages and of the group. A rank that fails aborts the group, so that the others do
// not wait for its messages. Memory: stages make the buffers (Stage::make_boundary). A plan runs one rank's
// schedule on the null device with a null group (comm/null.h). Thread rule: one thread per executor; its
// group's messages are its own while it runs.
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

namespace athanor {

struct ExecutorOptions {
  int receives_ahead = 1;  // of each other rank, beyond the message that is needed next
  Trace* trace = nullptr;
  std::function<void(const Action&)> after_action;  // null: nobody
  std::function<double()> clock = now_seconds;      // of wait_seconds()
};

class Executor {
 public:
  // The schedule must be valid. `stages`: this rank's, in the order of schedule.stages_of(group.rank()).
  Executor(Schedule schedule, const std::vector<Stage*>& stages, Group& group, ExecutorOptions options = {});

  void run();
  const Schedule& schedule() const { return schedule_; }
  double wait_seconds() const {
    return wait_seconds_;
  }  // of the last run: time in which this rank waited for others

 private:
  // What crosses a boundary: the input of `stage` or the gradient of its output, of a micro-batch.
  struct Parcel {
    int stage = 0;
    bool is_gradient = false;
    int micro_batch = 0;
    bool operator<(const Parcel& other) const {
      return std::tie(stage, is_gradient, micro_batch) <
             std::tie(other.stage, other.is_gradient, other.micro_batch);
    }
  };
  struct Incoming {
    std::vector<Parcel> parcels;  // in the order in which the other rank sends them
    size_t posted = 0;
  };
  struct Arrival {
    Tensor tensor;
    Work work;  // goes first: it may wait for the tensor to be written
  };

  void execute(const Action& action);
  void post(int rank, size_t count);
  Tensor take(const Parcel& parcel);
  void deliver(const Parcel& parcel, Tensor tensor);
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  Schedule schedule_;
  Group& group_;
  ExecutorOptions options_;
  std::map<int, Stage*> stages_;             // by number
  std::map<int, Incoming> incoming_;         // by rank
  std::map<Parcel, size_t> place_in_order_;  // of what comes from another rank, in its Incoming
  std::map<Parcel, Arrival> arrivals_;
  std::list<Arrival> sends_;
  double wait_seconds_ = 0.0;
};

}  // namespace athanor
