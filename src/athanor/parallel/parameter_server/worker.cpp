#include "athanor/parallel/parameter_server/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"
#include "athanor/parallel/not_finite.h"
#include "athanor/parallel/parameter_server/columns.h"

namespace athanor {

ServerClient::ServerClient(const Module& model, const std::vector<Column>& columns, Arena& arena,
                           Trace* trace)
    : model_(model),
      clock_(trace),
      columns_(make_columns<WorkerColumn>(model, columns, &ServerRoles::workers, arena, clock_)),
      world_(columns.front().ranks),
      settings_(column().settings()),
      is_first_(columns.front().peers.rank() == 0),
      expert_grains_(columns.back().settings.numbers_apart ? 0 : columns.back().settings.parts),
      answers_(static_cast<size_t>(settings_.roles.servers)),
      started_losses_(static_cast<size_t>(settings_.num_losses)) {}

void ServerClient::allocate() {
  for (const auto& column : columns_) column->allocate();
}

uint64_t ServerClient::gradient_buffer_bytes() const {
  uint64_t bytes = 0;
  for (const auto& column : columns_) bytes += column->gradients().buffer_bytes();
  return bytes;
}

void ServerClient::begin_step(int64_t step, double loss_scale) {
  clock_.reset();
  const auto grains_of = [](const WorkerColumn& column) {
    return column.gradients().grains_of_step(column.settings().num_grains);
  };
  if (experts() != nullptr) expert_grains_.begin(grains_of(column()), grains_of(*experts()));
  for (const auto& column : columns_) {
    column->gradients().code(settings_.codes(step), loss_scale);
    column->gradients().begin_step(column->settings().num_grains);
  }
}

void ServerClient::begin_grain(Tape& tape, int64_t grain) {
  own_ready_ = column().gradients().begin_grain(grain);
  if (experts() != nullptr)
    experts_ready_ = experts()->gradients().begin_grain(expert_grains_.of(grain));
  else if (!own_ready_)
    return;
  tape.on_weight_ready([this](Weight& weight) {
    const WeightReady& told = column().has(weight) ? own_ready_ : experts_ready_;
    if (told) told(weight);
  });
}

void ServerClient::begin_pass() {
  for (const auto& column : columns_) column->gradients().begin_pass();
}

void ServerClient::weight_ready(Weight& weight, int64_t grain) {
  if (column().has(weight))
    column().gradients().weight_ready(weight, grain);
  else
    experts()->gradients().weight_ready(weight, expert_grains_.of(grain));
}

void ServerClient::end_grain() {
  for (const auto& column : columns_) column->gradients().end_grain();
}

void ServerClient::finish() {
  for (const auto& column : columns_) column->gradients().finish();
}

void ServerClient::settle() {
  for (const auto& column : columns_) column->values().settle();
}

Traffic ServerClient::traffic() const {
  Traffic sum;
  for (const auto& column : columns_) sum += column->ranks().traffic();
  return sum;
}

std::vector<CompressionState> ServerClient::compression_states() const {
  std::vector<CompressionState> states;
  for (const auto& column : columns_)
    for (const CompressionState& state : column->gradients().compression_states()) states.push_back(state);
  return states;
}

void ServerClient::start() {
  expect_answers(started_losses_);
  wait_for_answers();
}

void ServerClient::share_grains(const std::vector<int64_t>& counts) {
  for (const auto& column : columns_) column->gradients().share_grains(counts);
  if (!is_first_) return;
  std::vector<Work> sends;
  for (int server = 0; server < settings_.roles.servers; ++server)
    sends.push_back(world_.send(counts.data(), std::ssize(counts), Dtype::i64,
                                settings_.roles.rank_of_server(server), "shares of grains"));
  for (Work& send : sends) clock_.wait(send, "wait for servers");
}

// To the mean over the tokens, clipped; returns the norm of that mean before it is clipped.
double ServerClient::scale(PushHeader& push, double clip_norm) {
  const std::vector<double> of_params = column().gradients().sum_squares(model_.params());
  double squares = 0.0;
  for (size_t i = 0; i < of_params.size(); ++i) {
    squares += of_params[i];
    if (!std::isfinite(squares) && !settings_.scales_loss())
      throw NotFinite(
          fmt::format("step {}: the gradient of '{}' is not finite", push.step, model_.params()[i]->name()));
  }
  const double to_mean = 1.0 / (push.tokens * push.loss_scale), norm = std::sqrt(squares) * to_mean;
  push.overflowed = !std::isfinite(squares);
  push.grad_scale = to_mean * (clip_norm > 0.0 && norm > clip_norm ? clip_norm / (norm + 1e-6) : 1.0);
  return norm;
}

AnswerHeader ServerClient::exchange(PushHeader push, double clip_norm, std::span<double> losses) {
  check(static_cast<int64_t>(losses.size()) == settings_.num_losses,
        "parameter server: got {} losses, expected {}", losses.size(), settings_.num_losses);
  const bool sync = settings_.consistency == Consistency::sync;
  const double norm = sync ? 0.0 : scale(push, clip_norm);
  const Words words = push.words();
  const std::vector<double> mine(losses.begin(), losses.end());
  std::vector<Work> sends;
  for (int server = 0; server < settings_.roles.servers; ++server)
    sends.push_back(world_.send(words.data(), static_cast<int64_t>(words.size()), Dtype::i64,
                                settings_.roles.rank_of_server(server), "push"));
  sends.push_back(world_.send(mine.data(), settings_.num_losses, Dtype::f64,
                              settings_.roles.rank_of_server(0), "losses"));
  expect_answers(losses);
  if (!sync) column().gradients().push();
  for (Work& send : sends) clock_.wait(send, "wait for servers");
  AnswerHeader answer = wait_for_answers();
  check(answer.step == push.step, "parameter server: got the answer of step {}, expected {}", answer.step,
        push.step);
  if (!sync) answer.grad_norm = norm;
  if (!std::isfinite(answer.grad_norm))
    for (const auto& column : columns_) column->gradients().skip_step();
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
  for (const auto& column : columns_) column->values().pull();
}

AnswerHeader ServerClient::wait_for_answers() {
  for (Work& work : works_) clock_.wait(work, "wait for servers");
  works_.clear();
  AnswerHeader answer = AnswerHeader::of(answers_.front());
  for (const Words& words : answers_)
    answer.staleness = std::max(answer.staleness, AnswerHeader::of(words).staleness);
  return answer;
}

}  // namespace athanor
