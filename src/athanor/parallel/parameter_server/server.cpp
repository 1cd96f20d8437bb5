#include "athanor/parallel/parameter_server/server.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "athanor/parallel/not_finite.h"
#include "athanor/parallel/parameter_server/columns.h"

namespace athanor {
namespace {

int64_t bound_of(const ServerSettings& settings) {
  return settings.consistency == Consistency::bounded ? settings.staleness : PushOrder::kUnbounded;
}

}  // namespace

ParameterServer::ParameterServer(const Module& model, Optimizer& optimizer,
                                 const std::vector<Column>& columns, Arena& arena, ServerOptions options)
    : model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      columns_(make_columns<ServerColumn>(model, columns, &ServerRoles::servers, arena)),
      world_(column().ranks()),
      servers_(column().servers()),
      settings_(column().settings()),
      order_(settings_.roles.workers, bound_of(settings_), 0, 0),
      headers_(static_cast<size_t>(settings_.roles.workers)),
      answer_headers_(headers_.size()),
      losses_(headers_.size(), std::vector<double>(static_cast<size_t>(settings_.num_losses), 0.0)),
      answered_losses_(losses_),
      pushed_losses_(losses_.front()) {}

void ParameterServer::start(const Served& from) {
  finish_answers();
  at_ = from;
  int64_t pushes = options_.pushes;
  for (replayed_ = 0; replayed_ < options_.replay.size(); ++replayed_) {
    if (options_.replay[replayed_].push.step > from.step) break;
    pushes = options_.replay[replayed_].version;
  }
  order_ = PushOrder(settings_.roles.workers, bound_of(settings_), from.step, pushes);
  started_step_ = from.step;
  stop_step_ = 0;
  if (settings_.consistency != Consistency::sync && arrivals_ == nullptr)
    arrivals_ = std::make_unique<Arrivals>(world_, settings_.roles.workers);
  for (const int worker : order_.take_answers())
    answer(worker, {.step = at_.step, .version = at_.updates, .tokens = at_.tokens});
  answer_experts();
}

// Workers that wait for an answer should hear why there is none.
Served ParameterServer::serve() {
  try {
    return settings_.consistency == Consistency::sync ? serve_steps() : serve_pushes();
  } catch (const Error& error) {
    world_.abort(error.what());
    throw;
  }
}

Served ParameterServer::serve_steps() {
  while (true) {
    bool commit = false;
    double tokens = 0.0;
    at_.stop = false;
    if (settings_.balance_every > 0 && at_.step > started_step_ && at_.step % settings_.balance_every == 0)
      share_grains(column().receive_shares());
    for (const auto& column : columns_) column->take_step(at_.step + 1);
    for (int worker = 0; worker < settings_.roles.workers; ++worker) {
      const PushHeader push = receive_header(worker);
      check(push.step == at_.step + 1, "parameter server: worker {} pushed step {}, expected {}", worker,
            push.step, at_.step + 1);
      commit = commit || push.commit;
      at_.stop = at_.stop || push.wants_stop;
      tokens += push.tokens;
    }
    finish_sums();
    const int64_t step = at_.step + 1;
    const double to_mean = 1.0 / (tokens * at_.loss_scale.scale);
    const double norm_of_sums = gradient_norm(step), norm = norm_of_sums * to_mean;
    const bool clips = options_.clip_norm > 0.0 && norm > options_.clip_norm;
    finish_answers();
    if (at_.loss_scale.update(std::isfinite(norm_of_sums)))
      update(step, to_mean * (clips ? options_.clip_norm / (norm + 1e-6) : 1.0));
    at_.step = step;
    at_.tokens += static_cast<int64_t>(tokens);
    for (int worker = 0; worker < settings_.roles.workers; ++worker)
      answer(worker, {.step = step,
                      .version = at_.updates,
                      .stop_step = at_.stop ? step : 0,
                      .tokens = at_.tokens,
                      .grad_norm = norm});
    answer_experts();
    if (commit || at_.stop) return at_;
  }
}

void ParameterServer::finish_sums() {
  for (const auto& column : columns_) column->finish();
  if (options_.sum_shared) options_.sum_shared([this](Param& param) { return grad(param); });
}

void ParameterServer::rehearse() {
  for (const auto& column : columns_)
    settings_.consistency == Consistency::sync ? column->take_step(1) : column->take_push(0, 1);
  finish_sums();
}

Served ParameterServer::serve_pushes() {
  while (true) {
    expect_headers();
    const int worker = next_worker();
    const PushHeader push = PushHeader::of(headers_[static_cast<size_t>(worker)]);
    receive_losses(worker);
    column().take_push(worker, push.step);
    column().finish();
    finish_answers();
    if (!push.overflowed) update(push.step, push.grad_scale);
    if (push.loss_scale == at_.loss_scale.scale) at_.loss_scale.update(!push.overflowed);
    at_.tokens += static_cast<int64_t>(push.tokens);
    const bool recorded = replayed_ < options_.replay.size() && options_.replay[replayed_].push.commit;
    record(order_.apply({worker, push.step, push.commit || recorded}));
    if (push.wants_stop && stop_step_ == 0) stop_step_ = order_.first_unknown_step();
    for (const int ready : order_.take_answers())
      answer(ready, {.step = order_.step(ready),
                     .version = at_.updates,
                     .staleness = order_.staleness(ready),
                     .stop_step = is_first() ? stop_step_ : 0,
                     .tokens = at_.tokens});
    if (!push.commit || !order_.committed(push.step)) continue;
    at_.step = push.step;
    at_.stop = push.stop_here;
    share_loss_scale();
    return at_;
  }
}

// At a commit, when all pushes have come to all: each has seen them in an order of its own, the first one's counts.
void ParameterServer::share_loss_scale() {
  if (!at_.loss_scale.dynamic) return;
  servers_.broadcast(&at_.loss_scale.scale, 1, Dtype::f64, 0, "loss scale").wait();
  servers_.broadcast(&at_.loss_scale.good_steps, 1, Dtype::i64, 0, "loss scale").wait();
}

// Of every worker that was answered and has not been heard of since.
void ParameterServer::expect_headers() {
  for (int worker = 0; worker < settings_.roles.workers; ++worker) {
    if (order_.waits(worker) || arrivals_->expects(worker)) continue;
    Words& words = headers_[static_cast<size_t>(worker)];
    arrivals_->expect(
        worker, world_.recv(words.data(), static_cast<int64_t>(words.size()), Dtype::i64, worker, "push"));
  }
}

int ParameterServer::next_worker() {
  if (options_.replay.empty()) return arrivals_->next();
  check(replayed_ < options_.replay.size(),
        "replay: the recorded schedule ends with update {}, expected one more", order_.version());
  const int worker = options_.replay[replayed_].push.worker;
  check(0 <= worker && worker < settings_.roles.workers && !order_.waits(worker),
        "replay: update {}: worker {} cannot push now", order_.version() + 1, worker);
  arrivals_->wait_for(worker);
  return worker;
}

void ParameterServer::record(const PushRecord& record) {
  if (!options_.replay.empty()) {
    const PushRecord& then = options_.replay[replayed_++];
    check(record == then,
          "replay: update {}: got step {} of worker {} with parameters of update {} (staleness {}), expected "
          "update {}: step {} with parameters of update {} (staleness {}){}",
          record.version, record.push.step, record.push.worker, record.pulled, record.staleness, then.version,
          then.push.step, then.pulled, then.staleness,
          record.push.commit == then.push.commit ? "" : ", which was no commit then");
  }
  if (options_.on_push) options_.on_push(record);
}

PushHeader ParameterServer::receive_header(int worker) {
  Words words{};
  world_.recv(words.data(), static_cast<int64_t>(words.size()), Dtype::i64, worker, "push").wait();
  receive_losses(worker);
  return PushHeader::of(words);
}

void ParameterServer::share_grains(const std::vector<int64_t>& counts) {
  for (const auto& column : columns_) column->share_grains(counts);
}

void ParameterServer::receive_losses(int worker) {
  if (!is_first()) return;
  world_.recv(pushed_losses_.data(), settings_.num_losses, Dtype::f64, worker, "losses").wait();
  for (auto& since : losses_)
    for (size_t i = 0; i < since.size(); ++i) since[i] += pushed_losses_[i];
}

const Tensor& ParameterServer::grad(const Param& param) const {
  return columns_[columns_.front()->has(param) ? 0 : 1]->grad(param);
}

Traffic ParameterServer::traffic() const {
  Traffic sum;
  for (const auto& column : columns_) sum += column->ranks().traffic();
  return sum;
}

double ParameterServer::gradient_norm(int64_t step) {
  double squares = 0.0;
  std::vector<double> of_params(model_.params().size(), 0.0);
  for (const auto& column : columns_) column->add_squares(model_.params(), of_params);
  if (options_.norm) return options_.norm(of_params, at_.loss_scale.dynamic, step);
  for (size_t i = 0; i < of_params.size(); ++i) {
    squares += of_params[i];
    if (!std::isfinite(squares) && !at_.loss_scale.dynamic)
      throw NotFinite(
          fmt::format("step {}: the gradient of '{}' is not finite", step, model_.params()[i]->name()));
  }
  return std::sqrt(squares);
}

void ParameterServer::update(int64_t step, double grad_scale) {
  optimizer_.step([this](Param& param) -> const Tensor& { return grad(param); },
                  {.update = at_.updates + 1, .lr = options_.schedule.at(step), .grad_scale = grad_scale});
  ++at_.updates;
}

void ParameterServer::answer(int worker, AnswerHeader header) {
  const auto w = static_cast<size_t>(worker);
  header.loss_scale = at_.loss_scale.scale;
  header.good_steps = at_.loss_scale.good_steps;
  answer_headers_[w] = header.words();
  answers_.push_back(world_.send(answer_headers_[w].data(), static_cast<int64_t>(answer_headers_[w].size()),
                                 Dtype::i64, worker, "answer"));
  if (is_first()) {
    answered_losses_[w].swap(losses_[w]);
    losses_[w].assign(losses_[w].size(), 0.0);
    answers_.push_back(
        world_.send(answered_losses_[w].data(), settings_.num_losses, Dtype::f64, worker, "losses"));
  }
  column().send_values(worker, [this](Work work) { answers_.push_back(std::move(work)); });
}

void ParameterServer::answer_experts() {
  for (size_t c = 1; c < columns_.size(); ++c)
    for (int worker = 0; worker < columns_[c]->settings().roles.workers; ++worker)
      columns_[c]->send_values(worker, [this](Work work) { answers_.push_back(std::move(work)); });
}

void ParameterServer::finish_answers() {
  for (Work& work : answers_) work.wait();
  answers_.clear();
}

}  // namespace athanor
