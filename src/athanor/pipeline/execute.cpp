#include "athanor/pipeline/execute.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::pipeline {
namespace {

std::string text_of(bool is_gradient, int stage, int micro_batch, const std::string& tensor = "") {
  return fmt::format("{}{} for stage {}, micro-batch {}", is_gradient ? "gradient" : "activation", tensor,
                     stage, micro_batch);
}

// Of the k-th tensor; its name distinguishes it where there are others.
std::string name_in(const std::vector<TensorSpec>& specs, size_t k) {
  return specs.size() == 1 ? "" : fmt::format(" '{}'", specs[k].name);
}

}  // namespace

bool Executor::Transfer::done() const {
  return std::all_of(works.begin(), works.end(), [](const Work& work) { return work.done(); });
}

void Executor::Transfer::wait() {
  for (Work& work : works) work.wait();
}

void Executor::Transfer::wait(Queue& queue) {
  for (Work& work : works) work.wait(queue);
}

Executor::Executor(Schedule schedule, const std::vector<Stage*>& stages, Group& group, Arena& arena,
                   ExecutorOptions options)
    : schedule_(std::move(schedule)), group_(group), arena_(arena), options_(std::move(options)) {
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
    const auto& [stage, is_gradient, micro] = message;
    Stage& runs = *stages_.at(stage);
    const std::vector<TensorSpec> specs = is_gradient ? runs.outputs(micro) : runs.inputs(micro);
    Transfer& transfer = received_[message];
    for (size_t k = 0; k < specs.size(); ++k) {
      const Tensor& tensor = transfer.tensors.emplace_back(empty(arena_, specs[k], Category::activations));
      transfer.works.push_back(group_.recv(tensor.raw(), tensor.numel(), tensor.dtype(), rank,
                                           text_of(is_gradient, stage, micro, name_in(specs, k))));
    }
  }
}

std::vector<Tensor> Executor::receive(const Message& message) {
  const int from = rank_of(message.is_gradient ? message.stage + 1 : message.stage - 1);
  if (from != group_.rank())
    post(from, position_.at(message) + 1 + static_cast<size_t>(options_.receives_ahead));
  const auto found = received_.find(message);
  check(found != received_.end(), "pipeline: the {} was not made before it was needed",
        text_of(message.is_gradient, message.stage, message.micro_batch));
  if (!found->second.done()) {
    const Span span(options_.trace, "wait for a stage", "comm");
    const double start = options_.clock();
    found->second.wait(arena_.queue());
    wait_seconds_ += options_.clock() - start;
  }
  found->second.wait(arena_.queue());
  std::vector<Tensor> tensors = std::move(found->second.tensors);
  received_.erase(found);
  return tensors;
}

void Executor::send(const Message& message, const std::vector<TensorSpec>& specs,
                    std::vector<Tensor> tensors) {
  const auto& [stage, is_gradient, micro] = message;
  const int to = rank_of(stage);
  check(tensors.size() == specs.size(), "pipeline: {}: got {} tensors, expected {}",
        text_of(is_gradient, stage, micro), tensors.size(), specs.size());
  std::vector<Work> works;
  for (size_t k = 0; k < specs.size(); ++k) {
    const std::string name = text_of(is_gradient, stage, micro, name_in(specs, k));
    check(
        matches(tensors[k], specs[k]), "pipeline: {}: got {}, expected {} {}", name,
        tensors[k].defined() ? fmt::format("{} {}", name_of(tensors[k].dtype()), tensors[k].shape()) : "none",
        name_of(specs[k].dtype), specs[k].shape);
    if (to != group_.rank())
      works.push_back(group_.send(tensors[k].raw(), tensors[k].numel(), tensors[k].dtype(), to, name));
  }
  if (to == group_.rank())
    received_[message] = {std::move(tensors), {}};
  else
    sends_.push_back({std::move(tensors), std::move(works)});
}

void Executor::execute(const Action& action) {
  const auto& [act, stage, micro] = action;
  Stage& runs = *stages_.at(stage);
  const bool is_first = stage == 0, is_last = stage + 1 == schedule_.num_stages();
  if (act == Act::weight_grad) {
    const Span span(options_.trace, "weight gradient", "pipeline");
    runs.backward_weight(micro);
  } else if (act == Act::forward) {
    const std::vector<Tensor> x = is_first ? std::vector<Tensor>{} : receive({stage, false, micro});
    const Span span(options_.trace, "forward", "pipeline");
    std::vector<Tensor> y = runs.forward(micro, x);
    if (!is_last) send({stage + 1, false, micro}, runs.outputs(micro), std::move(y));
  } else {
    const std::vector<Tensor> dy = is_last ? std::vector<Tensor>{} : receive({stage, true, micro});
    const Span span(options_.trace, act == Act::backward ? "backward" : "input gradient", "pipeline");
    std::vector<Tensor> dx = act == Act::backward ? runs.backward(micro, dy) : runs.backward_input(micro, dy);
    if (!is_first) send({stage - 1, true, micro}, runs.inputs(micro), std::move(dx));
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
        if (!send.done()) return false;
        send.wait();
        return true;
      });
    }
    const double start = options_.clock();
    for (Transfer& send : sends_) send.wait();
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
