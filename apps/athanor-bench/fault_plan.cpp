// Plans the fault of a trial of law 8, and says which errors the ranks must get.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/philox.h"
#include "fault_trial.h"

namespace athanor::apps {
namespace {

constexpr std::array kOperations = {
    Collective::barrier,        Collective::all_reduce, Collective::all_reduce_tree, Collective::all_gather,
    Collective::reduce_scatter, Collective::broadcast,  Collective::all_to_all,      Collective::reduce,
    Collective::gather,         Collective::scatter,    Collective::all_to_all_v,    Collective::send};
constexpr std::array kDtypes = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::i64};

class Dice {
 public:
  Dice(uint64_t seed, const std::string& stream, int number)
      : stream_(seed, stream), step_(static_cast<uint64_t>(number)) {}
  int roll(int low, int high) {
    return low + static_cast<int>(stream_.word(next_++, step_) % static_cast<uint32_t>(high - low + 1));
  }

 private:
  RandomStream stream_;
  uint64_t step_, next_ = 0;
};

bool is_message(const TrialCall& planned) {
  return planned.call.collective == Collective::send;
}

// Messages are not ordered with collectives: a missing message only shows as late, and a thread dies in a collective.
bool may_have_messages(const FaultTrial& trial) {
  return trial.kind == FaultKind::none || trial.kind == FaultKind::shape ||
         (trial.kind == FaultKind::dead && trial.transport != "thread");
}

TrialCall roll_call(const FaultTrial& trial, int k, Dice& dice) {
  const int operations = static_cast<int>(kOperations.size()) - (may_have_messages(trial) ? 0 : 1);
  // A barrier has no shape that could be wrong.
  const bool needs_shape = trial.kind == FaultKind::shape && k == trial.at;
  TrialCall planned;
  Call& call = planned.call;
  call.collective = kOperations[static_cast<size_t>(dice.roll(needs_shape ? 1 : 0, operations - 1))];
  call.dtype = kDtypes[static_cast<size_t>(dice.roll(0, 3))];
  call.count = dice.roll(0, 3) == 0 ? dice.roll(0, 2) : dice.roll(3, 40'000);
  const int root = dice.roll(0, trial.ranks - 1);
  switch (call.collective) {
    case Collective::barrier:
      call.dtype = Dtype::u8;
      call.count = 0;
      break;
    case Collective::all_reduce_tree:
      call.dtype = Dtype::f32;
      call.num_leaves = trial.ranks;
      break;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::gather:
    case Collective::scatter:
      call.root = root;
      break;
    case Collective::send:
      call.root = root;
      planned.from = (root + dice.roll(1, trial.ranks - 1)) % trial.ranks;
      break;
    default:
      break;
  }
  call.name = fmt::format("c{}", k);
  return planned;
}

using Judge = std::string (*)(const FaultTrial& trial, const Heard& heard);

std::string lacks(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) return fmt::format("got '{}', expected '{}' in it", text, part);
  return "";
}

// Checks the errors of every rank but `except`.
std::string all_hear(const Heard& heard, const std::vector<std::string>& parts, int except = -1) {
  for (size_t rank = 0; rank < heard.endings.size(); ++rank) {
    if (static_cast<int>(rank) == except) continue;
    const std::string wrong = lacks(heard.endings[rank], parts);
    if (!wrong.empty()) return fmt::format("rank {}: {}", rank, wrong);
  }
  return "";
}

std::string judge_none(const FaultTrial&, const Heard& heard) {
  for (size_t rank = 0; rank < heard.endings.size(); ++rank)
    if (!heard.endings[rank].empty()) return fmt::format("rank {}: {}", rank, heard.endings[rank]);
  return heard.reports.empty() ? "" : "reported late: " + heard.reports.front();
}

std::string judge_straggler(const FaultTrial& trial, const Heard& heard) {
  if (heard.reports.empty()) return "nothing was reported late";
  const std::string wrong =
      lacks(heard.reports.front(), {fmt::format("collective {} ", trial.sequence()),
                                    trial.calls[static_cast<size_t>(trial.at)].call.text(),
                                    fmt::format("rank {}, which ", trial.victim)});
  return wrong.empty() ? all_hear(heard, {}) + judge_none(trial, {heard.endings, {}, 0.0}) : wrong;
}

std::string judge_shape(const FaultTrial& trial, const Heard& heard) {
  const auto& [call, from] = trial.calls[static_cast<size_t>(trial.at)];
  const int victim = trial.victim, neighbour = (victim + 1) % trial.ranks;
  if (call.collective == Collective::all_to_all_v) {
    const int64_t has = uneven_count(call.count, neighbour, victim);
    return all_hear(heard, {"Error: ", fmt::format("collective {} {}", trial.sequence(), call.text()),
                            fmt::format("rank {} has {} elements for rank {}, which expects {}", neighbour,
                                        has, victim, has + trial.surplus)});
  }
  Call wrong = call, right = call;
  wrong.count += trial.surplus;
  if (call.collective == Collective::send) {
    Call& received = victim == from ? right : wrong;
    received.collective = Collective::recv;
    received.root = from;
    return all_hear(heard,
                    {"Error: ", fmt::format("message {} ", trial.sequence()),
                     fmt::format("rank {} called {}", victim, wrong.text()),
                     fmt::format("rank {} called {}", victim == from ? call.root : from, right.text())});
  }
  return all_hear(heard, {"Error: ", fmt::format("collective {}: ", trial.sequence()),
                          fmt::format("rank {} called {}", victim, wrong.text()), " called " + right.text()});
}

std::string judge_missing(const FaultTrial& trial, const Heard& heard) {
  const auto at = static_cast<size_t>(trial.at);
  return all_hear(heard, {"Error: ", fmt::format("collective {}: ", trial.sequence()),
                          fmt::format("rank {} called {}", trial.victim, trial.calls[at + 1].call.text()),
                          " called " + trial.calls[at].call.text()});
}

std::string judge_dead(const FaultTrial& trial, const Heard& heard) {
  const std::string& own = heard.endings[static_cast<size_t>(trial.victim)];
  if (trial.transport != "thread" && own != "signal 9")
    return fmt::format("rank {} ended with '{}', expected to be killed", trial.victim, own);
  return all_hear(heard,
                  {fmt::format("PeerLost {}: rank {} was lost: ", trial.victim, trial.victim), "; it "},
                  trial.victim);
}

}  // namespace

const std::vector<std::string>& fault_kinds() {
  static const std::vector<std::string> names = {"none", "straggler", "shape", "missing", "dead"};
  return names;
}

int64_t uneven_count(int64_t count, int from, int to) {
  return (count + from + 2 * to) % 1000;
}

int FaultTrial::sequence() const {
  const TrialCall& struck = calls[static_cast<size_t>(at)];
  int before = 0;
  for (int k = 0; k < at; ++k) {
    const TrialCall& other = calls[static_cast<size_t>(k)];
    if (is_message(other) != is_message(struck)) continue;
    if (!is_message(other) || (other.from == struck.from && other.call.root == struck.call.root)) ++before;
  }
  return before;
}

std::string FaultTrial::text() const {
  return fmt::format("rank {} of {} at call {}, {}", victim, ranks, at,
                     calls[static_cast<size_t>(at)].call.text());
}

FaultTrial plan_trial(uint64_t seed, FaultKind kind, const std::string& transport, int number) {
  Dice dice(seed, fmt::format("{} on {}", fault_kinds()[static_cast<size_t>(kind)], transport), number);
  FaultTrial trial{.kind = kind, .transport = transport, .number = number, .calls = {}};
  trial.ranks = dice.roll(2, kMostTrialRanks);
  trial.victim = dice.roll(0, trial.ranks - 1);
  const int length = dice.roll(1, 12);
  trial.at = dice.roll(0, length - 1);
  for (int k = 0; k < length; ++k) trial.calls.push_back(roll_call(trial, k, dice));
  trial.calls.push_back({{Collective::barrier, Dtype::u8, -1, 0, 0, "end"}, 0});
  trial.surplus = dice.roll(1, 300);
  trial.within = dice.roll(0, 1) == 1;
  const TrialCall& struck = trial.calls[static_cast<size_t>(trial.at)];
  if (kind == FaultKind::shape && is_message(struck))
    trial.victim = trial.within ? struck.from : struck.call.root;
  return trial;
}

std::string judge(FaultKind kind, const FaultTrial& trial, const Heard& heard) {
  constexpr std::array<Judge, 5> kJudges = {judge_none, judge_straggler, judge_shape, judge_missing,
                                            judge_dead};
  return kJudges[static_cast<size_t>(kind)](trial, heard);
}

}  // namespace athanor::apps
