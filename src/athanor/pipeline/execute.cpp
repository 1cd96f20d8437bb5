#include "athanor/pipeline/execute.h"

#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::pipeline {
namespace {

std::string text_of(bool is_gradient, int stage, int micro_batch) {
  return fmt::format("{} stage {}, micro-batch {}", is_gradient ? "gradient for" : "activation for", stage,
                     micro_batch);
}

}  // namespace

Executor::Executor(Schedule schedule, const std::vector<Stage*>& stages, Group& group,
                   ExecutorOptions options)
    : schedule_(std::move(schedule)), group_(group), options_(std::move(options)) {
  const int me = group_.rank();
  check(group_.size() == schedule_.num_ranks(),
        "pipeline: got a group of {} ranks, expected the {} of the schedule", group_.size(),
        schedule_.num_ranks());
  const std::vector<int> mine = schedule_.stages_of(me);
  check(stages.size() == mine.size(), "pipeline: rank {}: got {} stages, expected {}", me, stages.size(),
        mine.size());
  for (size_t k = 0; k < mine.size(); ++k) stages_[mine[k]] = stages[k];
  for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
    if (rank == me) continue;
    for (const auto& [act, stage, micro] : schedule_.ranks[static_cast<size_t>(rank)]) {
      if (act == Act::weight_grad) continue;
      const bool is_gradient = makes_input_grad(act);
      const int to = is_gradient ? stage - 1 : stage + 1;
      if (to < 0 || to == schedule_.num_stages() || rank_of(to) != me) continue;
      Incoming& incoming = incoming_[rank];
      place_in_order_[{to, is_gradient, micro}] = incoming.parcels.size();
      incoming.parcels.push_back({to, is_gradient, micro});
    }
  }
}

// Posts receives for the first `count` messages from `rank`. Receives match sends in order, so all messages before the
// one needed are posted, too.
void Executor::post(int rank, size_t count) {
  Incoming& incoming = incoming_.at(rank);
  for (; incoming.posted < std::min(count, incoming.parcels.size()); ++incoming.posted) {
    const Parcel& parcel = incoming.parcels[incoming.posted];
    Arrival& arrival = arrivals_[parcel];
    arrival.tensor = stages_.at(parcel.stage)->make_boundary(parcel.micro_batch);
    arrival.work = group_.recv(arrival.tensor.raw(), arrival.tensor.numel(), arrival.tensor.dtype(), rank,
                               text_of(parcel.is_gradient, parcel.stage, parcel.micro_batch));
  }
}

Tensor Executor::take(const Parcel& parcel) {
  const int from = rank_of(parcel.is_gradient ? parcel.stage + 1 : parcel.stage - 1);
  if (from != group_.rank())
    post(from, place_in_order_.at(parcel) + 1 + static_cast<size_t>(options_.receives_ahead));
  const auto found = arrivals_.find(parcel);
  check(found != arrivals_.end(), "pipeline: the {} was not made before it was needed",
        text_of(parcel.is_gradient, parcel.stage, parcel.micro_batch));
  if (!found->second.work.done()) {
    const Span span(options_.trace, "wait for a stage", "comm");
    const double start = options_.clock();
    found->second.work.wait();
    wait_seconds_ += options_.clock() - start;
  }
  found->second.work.wait();  // throws if the receive failed
  Tensor tensor = std::move(found->second.tensor);
  arrivals_.erase(found);
  return tensor;
}

void Executor::deliver(const Parcel& parcel, Tensor tensor) {
  const int to = rank_of(parcel.stage);
  const std::string name = text_of(parcel.is_gradient, parcel.stage, parcel.micro_batch);
  check(tensor.defined(), "pipeline: a stage made no {}", name);
  if (to == group_.rank()) {
    arrivals_[parcel] = {std::move(tensor), {}};
  } else {
    Work work = group_.send(tensor.raw(), tensor.numel(), tensor.dtype(), to, name);
    sends_.push_back({std::move(tensor), std::move(work)});
  }
}

void Executor::execute(const Action& action) {
  const auto& [act, stage, micro] = action;
  Stage& runs = *stages_.at(stage);
  const bool is_first = stage == 0, is_last = stage + 1 == schedule_.num_stages();
  if (act == Act::weight_grad) {
    const Span span(options_.trace, "weight gradient", "pipeline");
    runs.backward_weight(micro);
  } else if (act == Act::forward) {
    const Tensor x = is_first ? Tensor{} : take({stage, false, micro});
    const Span span(options_.trace, "forward", "pipeline");
    Tensor y = runs.forward(micro, x);
    if (!is_last) deliver({stage + 1, false, micro}, std::move(y));
  } else {
    const Tensor dy = is_last ? Tensor{} : take({stage, true, micro});
    const Span span(options_.trace, act == Act::backward ? "backward" : "input gradient", "pipeline");
    Tensor dx = act == Act::backward ? runs.backward(micro, dy) : runs.backward_input(micro, dy);
    if (!is_first) deliver({stage - 1, true, micro}, std::move(dx));
  }
}

void Executor::run() {
  wait_seconds_ = 0.0;
  try {
    for (auto& [rank, incoming] : incoming_) {
      incoming.posted = 0;
      post(rank, static_cast<size_t>(options_.receives_ahead));
    }
    for (const Action& action : schedule_.ranks[static_cast<size_t>(group_.rank())]) {
      execute(action);
      if (options_.after_action) options_.after_action(action);
      sends_.remove_if([](Arrival& send) {
        if (!send.work.done()) return false;
        send.work.wait();  // throws if the send failed
        return true;
      });
    }
    const double start = options_.clock();
    for (Arrival& send : sends_) send.work.wait();
    wait_seconds_ += options_.clock() - start;
    sends_.clear();
  } catch (const std::exception& error) {
    // Destroying pending messages waits for the other ranks, so the group is aborted first.
    group_.abort(fmt::format("pipeline: rank {} failed: {}", group_.rank(), error.what()));
    arrivals_.clear();
    sends_.clear();
    throw;
  }
}

}  // namespace athanor::pipeline
