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
      position_[{to, is_gradient, micro}] = incoming.messages.size();
      incoming.messages.push_back({to, is_gradient, micro});
    }
  }
}

// Posts receives for the first `count` messages from `rank`. Receives match sends in order, so all messages before the
// one needed are posted, too.
void Executor::post(int rank, size_t count) {
  Incoming& incoming = incoming_.at(rank);
  for (; incoming.posted < std::min(count, incoming.messages.size()); ++incoming.posted) {
    const Message& message = incoming.messages[incoming.posted];
    Transfer& transfer = received_[message];
    transfer.tensor = stages_.at(message.stage)->make_boundary(message.micro_batch);
    transfer.work = group_.recv(transfer.tensor.raw(), transfer.tensor.numel(), transfer.tensor.dtype(), rank,
                                text_of(message.is_gradient, message.stage, message.micro_batch));
  }
}

Tensor Executor::receive(const Message& message) {
  const int from = rank_of(message.is_gradient ? message.stage + 1 : message.stage - 1);
  if (from != group_.rank())
    post(from, position_.at(message) + 1 + static_cast<size_t>(options_.receives_ahead));
  const auto found = received_.find(message);
  check(found != received_.end(), "pipeline: the {} was not made before it was needed",
        text_of(message.is_gradient, message.stage, message.micro_batch));
  if (!found->second.work.done()) {
    const Span span(options_.trace, "wait for a stage", "comm");
    const double start = options_.clock();
    found->second.work.wait();
    wait_seconds_ += options_.clock() - start;
  }
  found->second.work.wait();  // throws if the receive failed
  Tensor tensor = std::move(found->second.tensor);
  received_.erase(found);
  return tensor;
}

void Executor::send(const Message& message, Tensor tensor) {
  const int to = rank_of(message.stage);
  const std::string name = text_of(message.is_gradient, message.stage, message.micro_batch);
  check(tensor.defined(), "pipeline: a stage made no {}", name);
  if (to == group_.rank()) {
    received_[message] = {std::move(tensor), {}};
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
    const Tensor x = is_first ? Tensor{} : receive({stage, false, micro});
    const Span span(options_.trace, "forward", "pipeline");
    Tensor y = runs.forward(micro, x);
    if (!is_last) send({stage + 1, false, micro}, std::move(y));
  } else {
    const Tensor dy = is_last ? Tensor{} : receive({stage, true, micro});
    const Span span(options_.trace, act == Act::backward ? "backward" : "input gradient", "pipeline");
    Tensor dx = act == Act::backward ? runs.backward(micro, dy) : runs.backward_input(micro, dy);
    if (!is_first) send({stage - 1, true, micro}, std::move(dx));
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
      sends_.remove_if([](Transfer& send) {
        if (!send.work.done()) return false;
        send.work.wait();  // throws if the send failed
        return true;
      });
    }
    const double start = options_.clock();
    for (Transfer& send : sends_) send.work.wait();
    wait_seconds_ += options_.clock() - start;
    sends_.clear();
  } catch (const std::exception& error) {
    // Destroying pending messages waits for the other ranks, so the group is aborted first.
    group_.abort(fmt::format("pipeline: rank {} failed: {}", group_.rank(), error.what()));
    received_.clear();
    sends_.clear();
    throw;
  }
}

}  // namespace athanor::pipeline
