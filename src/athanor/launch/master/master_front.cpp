#include "athanor/launch/master/master_front.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/file.h"

namespace athanor::launch::master {
namespace {

constexpr int kMostReplaced = 5;  // for one request
constexpr int64_t kLongWaitMs = 20;
constexpr int kStartMs = 10'000;

control::ProgressKind kind_of(const MasterInput& progress) {
  return std::get<control::Progress>(std::get<WorkerSaid>(progress.what).message).kind;
}

}  // namespace

MasterFront::MasterFront(MasterFrontOptions options) : options_(std::move(options)) {
  if (options_.command.empty()) {
    own_.emplace(options_.master);
    summary_ = summary_of(*own_);
    return;
  }
  summary_.workers.assign(static_cast<size_t>(options_.master.num_ranks), -1);
  begin();
}

void MasterFront::begin() {
  auto [ours, theirs] = control::PacketChannel::pair();
  WorkerCommand command;
  command.arguments = options_.command;
  command.arguments.push_back(std::to_string(theirs.fd()));
  command.environment = options_.environment;
  command.inherited_fds = {theirs.fd()};
  command.capture_stderr = false;
  command.signal_mask = options_.signal_mask;
  is_new_ = true;
  server_.emplace(command);
  channel_.emplace(std::move(ours));
  channel_->send(encode(ServeMaster{options_.master, join_path(options_.folder, "journal")}));
}

void MasterFront::replace(const std::string& why) {
  channel_.reset();
  server_.reset();  // kills it
  options_.on_replaced(why);
  begin();
}

// Sends a request and takes the packets of its answer, from as many masters as it takes.
std::vector<std::string> MasterFront::ask(
    const std::string& request, const std::function<bool(const std::vector<std::string>& packets)>& is_all) {
  for (int replaced = 0;; ++replaced) {
    std::string why = "has ended";
    std::vector<std::string> packets;
    try {
      channel_->send(request);
      const int patience_ms = is_new_ ? std::max(kStartMs, options_.patience_ms) : options_.patience_ms;
      const int64_t until_ns = now_ns() + int64_t{1'000'000} * patience_ms;
      while (!channel_->closed()) {
        channel_->flush();
        if (auto packet = channel_->receive()) {
          is_new_ = false;
          packets.push_back(std::move(packet->text));
          if (is_all(packets)) return packets;
          continue;
        }
        if (channel_->closed()) break;
        const int64_t left_ns = until_ns - now_ns();
        if (left_ns <= 0) throw Timeout(fmt::format("has not answered for {} ms", patience_ms));
        pollfd polled{channel_->fd(), POLLIN, 0};
        const int64_t left_ms = left_ns / 1'000'000 + 1;
        if (poll(&polled, 1, static_cast<int>(std::min(left_ms, kLongWaitMs))) == 0) options_.while_waiting();
      }
    } catch (const Failure& error) {
      why = error.what();
    }
    // Half an answer is none: the next one gives all of it.
    check(replaced < kMostReplaced, "launch: the master {}, as did the {} before it", why, replaced);
    replace(why);
  }
}

std::string MasterFront::tell_now(const MasterInput& input) {
  if (own_) {
    const std::string why_not = launch::tell(*own_, input);
    for (MasterAction& action : own_->take_actions()) actions_.push_back({std::move(action), {}});
    summary_ = summary_of(*own_);
    return why_not;
  }
  const auto packets = ask(encode(TellMaster{number_ + 1, input}),
                           [](const auto& all) { return decode_told(all.back()).has_value(); });
  const Told told = *decode_told(packets.back());
  check(told.number == number_ + 1, "launch: the master answered input {}, expected {}", told.number,
        number_ + 1);
  for (size_t i = 0; i + 1 < packets.size(); ++i)
    actions_.push_back({decode_action(packets[i]), {told.number, static_cast<int64_t>(i) + 1}});
  ++number_;
  summary_ = told.summary;
  return told.why_not;
}

void MasterFront::start(int64_t now_ns) {
  if (options_.takes_up) take_up(*options_.takes_up);
  if (number_ == 0) tell({now_ns, Started{}});
}

// What was done before `done` stays done. What came next may have been done, too, before the other agent could note it: so every
// action can be done twice.
void MasterFront::take_up(const keeper::ActionsDone& done) {
  const auto packets = ask(encode(RepeatActions{done.input}), [&](const auto& all) {
    const auto last = decode_told(all.back());
    if (!last) return false;
    const auto first = decode_told(all.front()), second = decode_told(all.at(all.size() > 1 ? 1 : 0));
    const int64_t size = first ? first->number : second->number;
    const bool has_more = size > 0 && size >= done.input;
    return !has_more || (last->number == size && all.size() > (first ? 1U : 2U));
  });
  size_t at = 0;
  auto told = decode_told(packets[at++]);
  if (!told) {
    left_off_ = std::get<FormWorld>(decode_action(packets[0]));
    told = decode_told(packets[at++]);
  }
  number_ = told->number;
  summary_ = told->summary;
  check(number_ >= done.input, "launch: the journal has {} inputs, and {} were acted on", number_,
        done.input);
  std::vector<MasterAction> actions;
  for (; at < packets.size(); ++at) {
    told = decode_told(packets[at]);
    if (!told) {
      actions.push_back(decode_action(packets[at]));
      continue;
    }
    int64_t count = 0;
    for (MasterAction& action : std::exchange(actions, {})) {
      const keeper::ActionsDone place{told->number, ++count};
      if (place.input > done.input || count > done.count)
        actions_.push_back({std::move(action), place});
      else if (const auto* form = std::get_if<FormWorld>(&action))
        left_off_ = *form;
    }
  }
}

std::string MasterFront::tell(const MasterInput& input) {
  tell_progress();
  return tell_now(input);
}

void MasterFront::said(int worker, const control::WorkerMessage& message, int64_t now_ns) {
  const MasterInput input{now_ns, WorkerSaid{worker, message}};
  if (own_ || !std::holds_alternative<control::Progress>(message)) {
    tell(input);
    return;
  }
  const auto& kind = std::get<control::Progress>(message).kind;
  const auto pending = progress_.find(worker);
  if (pending != progress_.end() && kind_of(pending->second) != kind) tell_progress();
  progress_.insert_or_assign(worker, input);
  progress_at_ns_ = std::min(progress_at_ns_, now_ns + kProgressNs);
}

void MasterFront::hello(int worker, int64_t now_ns) {
  said(worker, control::Hello{.job = std::string(control::kJobDigits, '0'), .worker = worker, .pid = 1},
       now_ns);
}

void MasterFront::tick(int64_t now_ns) {
  if (now_ns >= summary_.next_tick_ns)
    tell({now_ns, Ticked{}});
  else
    tell_progress();
}

void MasterFront::tell_progress() {
  progress_at_ns_ = kNeverNs;
  for (const auto& [worker, told] : std::exchange(progress_, {})) tell_now(told);
}

std::vector<NumberedAction> MasterFront::take_numbered_actions() {
  return std::exchange(actions_, {});
}

std::vector<MasterAction> MasterFront::take_actions() {
  std::vector<MasterAction> actions;
  for (NumberedAction& one : take_numbered_actions()) actions.push_back(std::move(one.action));
  return actions;
}

int64_t MasterFront::next_tick_ns() const {
  return std::min(summary_.next_tick_ns, progress_at_ns_);
}

int MasterFront::worker_of(int rank) const {
  return rank < 0 || rank >= size() ? -1 : summary_.workers[static_cast<size_t>(rank)];
}

control::JobStatus MasterFront::status(int64_t now_ns) {
  if (own_) return own_->status(now_ns);
  tell_progress();
  const std::string text =
      ask(encode(AskMaster{.verdict = false, .now_ns = now_ns}), [](const auto&) { return true; }).back();
  const control::OperatorAnswer answer = control::decode_operator_answer(text);
  const auto* job = std::get_if<control::JobStatus>(&answer);
  check(job != nullptr, "launch: the master gave no status");
  return *job;
}

Verdict MasterFront::verdict(std::optional<int> blamed) {
  if (own_) return own_->verdict(blamed);
  return decode_verdict(
      ask(encode(AskMaster{.verdict = true, .blamed = blamed.value_or(-1)}), [](const auto&) {
        return true;
      }).back());
}

void MasterFront::add_polled(std::vector<pollfd>& polled) const {
  polled.push_back({server_ ? server_->process_fd() : -1, POLLIN, 0});
}

void MasterFront::look() {
  if (!server_) return;
  pollfd polled{server_->process_fd(), POLLIN, 0};
  if (poll(&polled, 1, 0) > 0) replace("has ended");
}

}  // namespace athanor::launch::master
