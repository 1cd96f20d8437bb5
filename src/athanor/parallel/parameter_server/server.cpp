#include "athanor/parallel/parameter_server/server.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/parallel/data/gradient_norm.h"
#include "athanor/parallel/data/no_targets.h"
#include "athanor/parallel/data/not_finite.h"

namespace athanor::parallel::parameter_server {
namespace {

int64_t bound_of(const ServerSettings& settings) {
  return settings.consistency == Consistency::bounded ? settings.staleness : PushOrder::kUnbounded;
}

}  // namespace

ParameterServer::ParameterServer(const Module& model, Optimizer& optimizer, Group& world, Group& servers,
                                 const ServerSettings& settings, Arena& arena, ServerOptions options)
    : model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      world_(world),
      servers_(servers),
      settings_(settings),
      shard_(model.weights(), servers.rank(), arena, settings),
      micro_batches_(settings.roles.workers, /*own=*/0, settings.parts),
      order_(settings_.roles.workers, bound_of(settings_), 0, 0),
      headers_(static_cast<size_t>(settings_.roles.workers)),
      answer_headers_(headers_.size()),
      losses_(headers_.size(), std::vector<double>(static_cast<size_t>(settings_.num_losses), 0.0)),
      answered_losses_(losses_),
      pushed_losses_(losses_.front()) {
  check(world.size() == settings.roles.size() && servers.size() == settings.roles.servers,
        "parameter server: got {} ranks and {} servers, expected {} and {}", world.size(), servers.size(),
        settings.roles.size(), settings.roles.servers);
  if (settings.compression.kind != Compression::none)
    coded_ = std::make_unique<CodedRows>(shard_.buckets(), servers.rank(), arena, settings);
}

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
}

// An error aborts the group, so that waiting workers get its text.
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
      receive_shares();
    take_step(at_.step + 1);
    for (int worker = 0; worker < settings_.roles.workers; ++worker) {
      const PushHeader push = receive_header(worker);
      check(push.step == at_.step + 1, "parameter server: worker {} pushed step {}, expected {}", worker,
            push.step, at_.step + 1);
      commit = commit || push.commit;
      at_.stop = at_.stop || push.wants_stop;
      tokens += push.tokens;
    }
    shard_.finish();
    const int64_t step = at_.step + 1;
    if (tokens == 0.0) refuse_without_targets(step);
    const double to_mean = to_mean_of(tokens, at_.loss_scale.scale);
    const double norm_of_sums = gradient_norm(step), norm = norm_of_sums * to_mean;
    const bool clips = options_.max_grad_norm > 0.0 && norm > options_.max_grad_norm;
    finish_answers();
    if (at_.loss_scale.update(std::isfinite(norm_of_sums)))
      update(step, to_mean * (clips ? options_.max_grad_norm / (norm + 1e-6) : 1.0));
    at_.step = step;
    at_.tokens += static_cast<int64_t>(tokens);
    for (int worker = 0; worker < settings_.roles.workers; ++worker)
      answer(worker, {.step = step,
                      .version = at_.updates,
                      .stop_step = at_.stop ? step : 0,
                      .tokens = at_.tokens,
                      .grad_norm = norm});
    if (commit || at_.stop) return at_;
  }
}

void ParameterServer::rehearse() {
  settings_.consistency == Consistency::sync ? take_step(1) : take_push(0, 1);
  shard_.finish();
}

Served ParameterServer::serve_pushes() {
  while (true) {
    expect_headers();
    const int worker = next_worker();
    const PushHeader push = PushHeader::of(headers_[static_cast<size_t>(worker)]);
    receive_losses(worker);
    take_push(worker, push.step);
    shard_.finish();
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

// At a commit all servers have received all pushes, each in an order of its own; server 0's loss scale is the valid
// one.
void ParameterServer::share_loss_scale() {
  if (!at_.loss_scale.dynamic) return;
  servers_.broadcast(&at_.loss_scale.scale, 1, Dtype::f64, 0, "loss scale").wait();
  servers_.broadcast(&at_.loss_scale.good_steps, 1, Dtype::i64, 0, "loss scale").wait();
}

// Expects a header from every worker that has been answered and has not pushed since.
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
          record.push.commit == then.push.commit ? "" : "; one of the two is a global barrier");
  }
  if (options_.on_push) options_.on_push(record);
}

PushHeader ParameterServer::receive_header(int worker) {
  Words words{};
  world_.recv(words.data(), static_cast<int64_t>(words.size()), Dtype::i64, worker, "push").wait();
  receive_losses(worker);
  return PushHeader::of(words);
}

// Receives from worker 0 how many micro-batches each data-parallel rank takes; the order of sums follows from it.
void ParameterServer::receive_shares() {
  std::vector<int64_t> counts(static_cast<size_t>(settings_.roles.workers / settings_.parts));
  world_.recv(counts.data(), std::ssize(counts), Dtype::i64, 0, "micro-batches per rank").wait();
  micro_batches_.set(std::move(counts));
}

// On the null device memory is allocated and nothing is received.
void ParameterServer::receive_gradients(int worker, size_t bucket, int64_t step) {
  const Tensor into = shard_.incoming(bucket);
  if (into.queue().device() == Device::null) return;
  if (settings_.codes(step)) return coded_->receive(world_, worker, bucket, into);
  world_.recv(into.raw(), into.numel(), Dtype::f32, worker, "gradients " + std::to_string(bucket)).wait();
}

// Sums one bucket over all workers, in the order of data parallelism (ReplicatedGradients).
void ParameterServer::take_bucket(size_t bucket, int64_t step) {
  const int workers = settings_.roles.workers, parts = settings_.parts;
  if (settings_.reduce == Reduce::fast) {
    for (int worker = 0; worker < workers; ++worker) {
      receive_gradients(worker, bucket, step);
      shard_.take(bucket, {worker, worker + 1}, workers);
    }
    return;
  }
  const int64_t micro_batches = settings_.num_micro_batches,
                num_leaves = micro_batches_.num_leaves(micro_batches);
  for (int i = 0; i < workers; ++i) {  // leaves from left to right: part 0 of all micro-batches, then part 1
    const int worker = i % (workers / parts) * parts + i / (workers / parts);
    const LeafRange leaves = micro_batches_.leaves(micro_batches, worker);
    for (const LeafRange& node : cover_nodes(leaves.first, leaves.second, num_leaves)) {
      receive_gradients(worker, bucket, step);
      shard_.take(bucket, node, num_leaves);
    }
  }
}

void ParameterServer::take_step(int64_t step) {
  for (size_t bucket = 0; bucket < shard_.buckets().list.size(); ++bucket) take_bucket(bucket, step);
}

void ParameterServer::take_push(int worker, int64_t step) {
  for (size_t bucket = 0; bucket < shard_.buckets().list.size(); ++bucket) {
    receive_gradients(worker, bucket, step);
    shard_.take(bucket, {0, 1}, 1);
  }
}

void ParameterServer::receive_losses(int worker) {
  if (!is_first()) return;
  world_.recv(pushed_losses_.data(), settings_.num_losses, Dtype::f64, worker, "losses").wait();
  for (auto& since : losses_)
    for (size_t i = 0; i < since.size(); ++i) since[i] += pushed_losses_[i];
}

double ParameterServer::gradient_norm(int64_t step) {
  std::vector<const Param*> params;
  std::vector<NormTensor> tensors;
  for (const auto& param : model_.params()) {
    if (!shard_.has(*param)) continue;
    params.push_back(param.get());
    tensors.push_back(
        {.numel = param->numel(), .pieces = {}, .mine = [this, &param] { return shard_.grad(*param); }});
    for (int server = 0; server < settings_.roles.servers; ++server)
      tensors.back().pieces.push_back(shard_.piece(*param, server));
  }
  const std::vector<double> of_params = sum_squares(tensors, servers_);
  double squares = 0.0;
  for (size_t i = 0; i < of_params.size(); ++i) {
    squares += of_params[i];
    if (!std::isfinite(squares) && !at_.loss_scale.dynamic)
      throw NotFinite(fmt::format("step {}: the gradient of '{}' is not finite", step, params[i]->name()));
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
  for (size_t b = shard_.buckets().list.size(); b-- > 0;) {
    if (!shard_.has_values(b)) continue;
    const Tensor& row = shard_.values(b);
    answers_.push_back(
        world_.send(row.raw(), row.numel(), row.dtype(), worker, "parameters " + std::to_string(b)));
  }
}

void ParameterServer::finish_answers() {
  for (Work& work : answers_) work.wait();
  answers_.clear();
}

}  // namespace athanor::parallel::parameter_server
