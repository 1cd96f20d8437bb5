#include "athanor/run/tuning/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/run/decisions/set_settings.h"
#include "athanor/run/tuning/candidates.h"
#include "athanor/run/tuning/fit.h"
#include "athanor/run/tuning/proposal.h"

namespace athanor::run::tuning {
namespace {

BatchShape shape_of(const Config& config, const Layout& layout) {
  return {.global_batch_size = config.train.global_batch_size, .data_ranks = layout.dp()};
}

}  // namespace

Tuner::Tuner(Run& run, const RunPhase& phase, const MemoryPlan& plan)
    : run_(run), phase_(phase), plan_(plan), is_on_(phase.config.launch.tune != "off" && !run.io.decisions) {}

bool Tuner::after_step(double seconds) {
  if (!is_on_ || std::ssize(seconds_) == kStepsOfTry) return false;
  seconds_.push_back(seconds);
  if (std::ssize(seconds_) < kStepsOfTry || next_set(run_.decisions, run_.state.step)) return false;
  gather();
  if (phase_.config.launch.tune == "apply") return apply();
  propose();
  return false;
}

void Tuner::gather() {
  Group& group = run_.world->all();
  TuningMemory& memory = run_.tuning;
  if (memory.first_step != phase_.first_step || memory.ranks != group.size()) memory.before.reset();
  const StepTimes before = memory.before.value_or(StepTimes{});
  std::vector<double> mine(seconds_.begin() + kWarmUp, seconds_.end());
  // Beside the times of its steps; a median of 0: it does not know.
  mine.insert(mine.end(), {memory.switch_seconds, before.median_seconds, before.spread_seconds,
                           static_cast<double>(run_.threads)});
  std::vector<double> all(mine.size() * static_cast<size_t>(group.size()));
  group.all_gather(mine.data(), all.data(), std::ssize(mine), Dtype::f64, "step times").wait();
  std::vector<double> slowest(kMeasured, 0.0);
  have_same_threads_ = true;
  for (auto rank = all.begin(); rank != all.end(); rank += std::ssize(mine)) {
    for (size_t i = 0; i < slowest.size(); ++i)
      slowest[i] = std::max(slowest[i], *(rank + static_cast<std::ptrdiff_t>(i)));
    const auto said = rank + kMeasured;
    switch_seconds_ = std::max(switch_seconds_, said[0]);
    if (!memory.before && said[1] > 0.0) memory.before = StepTimes{said[1], said[2]};
    have_same_threads_ = have_same_threads_ && said[3] == all[mine.size() - 1];
  }
  memory.first_step = phase_.first_step;
  memory.ranks = group.size();
  now_ = measure(std::move(slowest));
}

bool Tuner::apply() {
  Standing standing = standing_of(run_.decisions, phase_.first_step);
  if (standing.open) {
    if (!judge(standing)) return true;
    standing = standing_of(run_.decisions, phase_.first_step);
  }
  run_.tuning.before = now_;
  if (const auto next = next_try(standing)) {
    take(*next, 0.0);
    return true;
  }
  const std::string over =
      fmt::format("tuning is over: train.micro_batch_size = {}, {} thread{} a rank",
                  phase_.config.train.micro_batch_size, run_.threads, run_.threads == 1 ? "" : "s");
  if (std::exchange(run_.tuning.told, over) == over) return false;
  const std::string text = fmt::format("{}, a step takes {:.4g} s", over, now_.median_seconds);
  run_.recorder->message(fmt::format("step {}: {}", run_.state.step, text));
  tell(text);
  return false;
}

bool Tuner::judge(const Standing& standing) {
  const auto& before = run_.tuning.before;
  const int64_t step = run_.state.step + 1;
  if (!before) {
    take(judgement(*standing.open, /*keeps=*/false, step,
                   "the processes that tried it have ended, unmeasured"),
         0.0);
    return false;
  }
  const bool keeps = is_faster(now_, *before);
  const double more = std::max(0.0, now_.median_seconds - before->median_seconds);
  take(judgement(*standing.open, keeps, step,
                 fmt::format("a step takes {:.4g} s instead of {:.4g} s (spread {:.2g} s and {:.2g} s)",
                             now_.median_seconds, before->median_seconds, now_.spread_seconds,
                             before->spread_seconds)),
       static_cast<double>(kStepsOfTry) * more + (keeps ? 1.0 : 2.0) * switch_seconds_);
  return keeps;
}

int64_t Tuner::share_of_processors() const {
  Config config = phase_.config;
  config.train.threads = 0;
  return threads_of_rank(config, run_.io.ranks_of_processors);
}

std::optional<Decision> Tuner::next_try(const Standing& standing) {
  const Config& config = phase_.config;
  const TryCosts costs{.steps_left = phase_.last_step - run_.state.step,
                       .steps_of_try = kStepsOfTry,
                       .switch_seconds = switch_seconds_};
  if (standing.num_tries >= kMostTries || !pays(now_, costs)) return std::nullopt;
  const auto tried = [&](const char* key) {
    const auto found = standing.tried.find(key);
    return found == standing.tried.end() ? std::set<int64_t>{} : found->second;
  };
  const auto decision = [&](const char* key, int64_t value) {
    return set_decision(config, fmt::format("{}={}", key, value), run_.state.step + 1,
                        fmt::format("{}a step takes {:.4g} s (spread {:.2g} s): tried for {} steps", kTuning,
                                    now_.median_seconds, now_.spread_seconds, kStepsOfTry));
  };
  if (!standing.of_operator.contains(kMicroBatchKey) && may_change_order(config)) {
    const auto size =
        next_micro_batch(config.train.micro_batch_size, shape_of(config, plan_.layout), tried(kMicroBatchKey),
                         [&](int64_t value) { return fit_of_size(value).why_not.empty(); });
    if (size) return decision(kMicroBatchKey, *size);
  }
  if (standing.of_operator.contains(kThreadsKey) || !have_same_threads_ || config.train.device == "cuda")
    return std::nullopt;
  std::set<int64_t> numbers = tried(kThreadsKey);
  if (numbers.erase(0) > 0) numbers.insert(share_of_processors());
  const auto threads =
      next_threads(run_.threads, share_of_processors(), numbers, [](int64_t) { return true; });
  return threads ? decision(kThreadsKey, *threads) : std::nullopt;
}

// Where no slots are there to go on in, the values are copied from one engine to the next.
Fit Tuner::fit_of_size(int64_t micro_batch_size) const {
  MemoryPlan now = plan_;
  now.request.snapshot_after =
      now.request.snapshot_after || !run_.has_slots() || plan_.slots.mode != SnapshotMode::slots;
  Config config = phase_.config;
  config.train.micro_batch_size = micro_batch_size;
  return fit_of(run_, now, config, run_.world->all());
}

void Tuner::propose() {
  const Config& config = phase_.config;
  ProposalFacts facts{.micro_batch_size = config.train.micro_batch_size,
                      .tokens_of_sequence = config.data.seq_len / plan_.layout.cp,
                      .threads = run_.threads,
                      .most_threads = run_.threads};
  if (have_same_threads_ && config.train.device != "cuda") facts.most_threads = share_of_processors();
  uint64_t needed_bytes = 0;
  const auto fits = [&](int64_t value) {
    const Fit fit = fit_of_size(value);
    if (fit.plan) needed_bytes = fit.plan->usage.peak_total;
    return fit.why_not.empty();
  };
  const std::set<int64_t> nothing_smaller = {0};
  for (int64_t size = facts.micro_batch_size;
       may_change_order(config) && size * facts.tokens_of_sequence < kTokensOfPass;) {
    const auto next = next_micro_batch(size, shape_of(config, plan_.layout), nothing_smaller, fits);
    if (!next) break;
    size = *next;
    facts.bigger.push_back({size, needed_bytes});
  }
  const Proposal proposal = propose_setting(facts);
  if (std::exchange(run_.tuning.told, proposal.setting + proposal.why) == proposal.setting + proposal.why)
    return;
  const std::string how = run_.io.is_launched
                              ? fmt::format("athanor ctl {} set {}", run_.folder.path, proposal.setting)
                              : fmt::format("--set {} at the next start", proposal.setting);
  const std::string text =
      fmt::format("tuning {}: {}; a step takes {:.4g} s now{}",
                  proposal.setting.empty() ? "proposes nothing"
                                           : "proposes, by rule and not by measurement, " + proposal.setting,
                  proposal.why, now_.median_seconds, proposal.setting.empty() ? "" : ": " + how);
  run_.recorder->message(fmt::format("step {}: {}", run_.state.step, text));
  tell(text);
}

void Tuner::take(const Decision& decision, double lost_seconds) {
  run_.decisions = with_decisions(run_.decisions, {decision});
  run_.guards.decisions = run_.decisions;
  tell(text_of(decision), lost_seconds);
}

void Tuner::tell(const std::string& what, double lost_seconds) {
  run_.tell({.event = "tune", .cause = what, .recover_seconds = lost_seconds, .lost_steps = 0});
}

}  // namespace athanor::run::tuning
