#include "athanor/parallel/parameter_server/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/parallel/data/no_targets.h"
#include "athanor/parallel/data/not_finite.h"

namespace athanor::parallel::parameter_server {

ServerClient::ServerClient(const Module& model, Group& world, Group& workers, const ServerSettings& settings,
                           Arena& arena, Trace* trace, std::function<double()> clock)
    : model_(model),
      world_(world),
      workers_(workers),
      settings_(settings),
      arena_(arena),
      clock_(trace, std::move(clock)),
      buckets_(model.weights(), settings.buckets()),
      values_(buckets_, world, arena, settings, clock_),
      answers_(static_cast<size_t>(settings.roles.servers)),
      started_losses_(static_cast<size_t>(settings.num_losses)) {
  check(world.size() == settings.roles.size() && workers.size() == settings.roles.workers,
        "parameter server: got {} ranks and {} workers, expected {} and {}", world.size(), workers.size(),
        settings.roles.size(), settings.roles.workers);
}

void ServerClient::allocate() {
  push_ = std::make_unique<GradientPush>(buckets_, workers_, world_, arena_, settings_, clock_);
  gradients_ = std::make_unique<ReplicatedGradients>(buckets_, workers_, arena_, settings_.reduce,
                                                     settings_.parts, clock_, *push_);
}

void ServerClient::begin_step(const GradientStep& step) {
  clock_.reset();
  push_->code(settings_.codes(step.update), step.loss_scale);
  gradients_->begin_step(step);
}

void ServerClient::start() {
  expect_answers(started_losses_);
  wait_for_answers();
}

void ServerClient::share_micro_batches(std::vector<int64_t> counts) {
  gradients_->share_micro_batches(counts);
  if (workers_.rank() > 0) return;
  std::vector<Work> sends;
  for (int server = 0; server < settings_.roles.servers; ++server)
    sends.push_back(world_.send(counts.data(), std::ssize(counts), Dtype::i64,
                                settings_.roles.rank_of_server(server), "micro-batches per rank"));
  for (Work& send : sends) clock_.wait(send, "wait for servers");
}

// Sets the push's factor to the clipped mean over its tokens; returns the norm of that mean before clipping.
double ServerClient::scale(PushHeader& push, double max_grad_norm) {
  const std::vector<double> of_params = push_->sum_squares(model_.params());
  double squares = 0.0;
  for (size_t i = 0; i < of_params.size(); ++i) {
    squares += of_params[i];
    if (!std::isfinite(squares) && !settings_.scales_loss())
      throw NotFinite(
          fmt::format("step {}: the gradient of '{}' is not finite", push.step, model_.params()[i]->name()));
  }
  const double to_mean = to_mean_of(push.tokens, push.loss_scale), norm = std::sqrt(squares) * to_mean;
  push.overflowed = !std::isfinite(squares);
  push.grad_scale =
      to_mean * (max_grad_norm > 0.0 && norm > max_grad_norm ? max_grad_norm / (norm + 1e-6) : 1.0);
  return norm;
}

AnswerHeader ServerClient::exchange(PushHeader push, double max_grad_norm, std::span<double> losses) {
  check(static_cast<int64_t>(losses.size()) == settings_.num_losses,
        "parameter server: got {} losses, expected {}", losses.size(), settings_.num_losses);
  const bool sync = settings_.consistency == Consistency::sync;
  const double norm = sync ? 0.0 : scale(push, max_grad_norm);
  const Words words = push.words();
  const std::vector<double> mine(losses.begin(), losses.end());
  std::vector<Work> sends;
  for (int server = 0; server < settings_.roles.servers; ++server)
    sends.push_back(world_.send(words.data(), static_cast<int64_t>(words.size()), Dtype::i64,
                                settings_.roles.rank_of_server(server), "push"));
  sends.push_back(world_.send(mine.data(), settings_.num_losses, Dtype::f64,
                              settings_.roles.rank_of_server(0), "losses"));
  expect_answers(losses);
  if (!sync) push_->push();
  for (Work& send : sends) clock_.wait(send, "wait for servers");
  AnswerHeader answer = wait_for_answers();
  check(answer.step == push.step, "parameter server: got the reply to the push of step {}, expected {}",
        answer.step, push.step);
  if (!sync) answer.grad_norm = norm;
  if (!std::isfinite(answer.grad_norm)) push_->skip_step();
  return answer;
}

void ServerClient::expect_answers(std::span<double> losses) {
  settle();
  for (int server = 0; server < settings_.roles.servers; ++server) {
    const int rank = settings_.roles.rank_of_server(server);
    Words& words = answers_[static_cast<size_t>(server)];
    works_.push_back(
        world_.recv(words.data(), static_cast<int64_t>(words.size()), Dtype::i64, rank, "answer"));
    if (server == 0)
      works_.push_back(world_.recv(losses.data(), settings_.num_losses, Dtype::f64, rank, "losses"));
  }
  values_.pull();
}

AnswerHeader ServerClient::wait_for_answers() {
  for (Work& work : works_) clock_.wait(work, "wait for servers");
  works_.clear();
  AnswerHeader answer = AnswerHeader::of(answers_.front());
  for (const Words& words : answers_)
    answer.staleness = std::max(answer.staleness, AnswerHeader::of(words).staleness);
  return answer;
}

}  // namespace athanor::parallel::parameter_server
