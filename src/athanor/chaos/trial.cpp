#include "athanor/chaos/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::chaos {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// A job that takes longer than this and ten undisturbed runs is given up.
constexpr double kPatienceSeconds = 60.0;

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

class Trial {
 public:
  Trial(const JobCommand& command, const Undisturbed& undisturbed, const Fault& fault, const Draw& draw,
        bool is_control)
      : command_(command), undisturbed_(undisturbed), fault_(fault), draw_(draw), is_control_(is_control) {
    draw_.is_control = is_control;
    draw_.instant *= fault.latest();
    if (auto planned = fault.plan(draw_)) {
      planned->step = undisturbed.place_of(draw_.instant).step + 1;
      command_.planned = {draw.ranks.front(), *planned};
    }
    fault.prepare(command_);
    command_.set(fault.settings());
    if (is_control) command_.set(fault.control_settings());
  }
  TrialResult run();

 private:
  int64_t deadline_ns() const {
    return now_ns() + static_cast<int64_t>((kPatienceSeconds + 10.0 * undisturbed_.seconds) * 1e9);
  }
  void strike(JobHandle& job, const Undisturbed::Place& place);
  void follow(JobHandle& job);
  void note_events(JobHandle& job);
  void note_recovery(JobHandle& job);
  void go_on();
  void end(JobHandle& job, int64_t until_ns);
  void compare();

  JobCommand command_;
  const Undisturbed& undisturbed_;
  const Fault& fault_;
  Draw draw_;
  bool is_control_;
  Seen seen_;
};

// Waits for the instant, and strikes.
void Trial::strike(JobHandle& job, const Undisturbed::Place& place) {
  const int64_t until_ns = deadline_ns();
  RunWatch& watch = job.watch();
  if (job.wait([&] { return watch.best_step() >= 1; }, until_ns)) job.find_ranks();
  job.wait([&] { return watch.best_step() >= place.step; }, until_ns);
  if (watch.best_step() >= place.step) {
    const int64_t at_ns = watch.step_ns(place.step) + place.offset_ns;
    job.wait([&] { return watch.best_step() >= undisturbed_.last_step(); }, at_ns);
  }
  is_control_ ? fault_.inject_unprotected(job, draw_) : fault_.inject(job, draw_);
  seen_.at_step = job.struck()->step;
  seen_.missed = job.struck()->missed;
  seen_.notes = job.notes();
}

void Trial::end(JobHandle& job, int64_t until_ns) {
  if (!job.wait_for_end(until_ns)) {
    seen_.endless =
        fmt::format("the job did not end within {:.0f} s", kPatienceSeconds + 10.0 * undisturbed_.seconds);
    job.end_now();
  }
  for (std::string& leftover : job.leftovers())
    if (!fault_.expectation().leaves_sockets || !is_socket_folder(leftover))
      seen_.leftovers.push_back(std::move(leftover));
}

// From the strike to the end of the job.
void Trial::follow(JobHandle& job) {
  const int64_t until_ns = deadline_ns();
  RunWatch& watch = job.watch();
  const JobHandle::Struck& struck = *job.struck();
  const auto has_event = [&](const char* kind) {
    const auto& events = watch.events();
    return std::find_if(events.begin() + static_cast<std::ptrdiff_t>(struck.num_events), events.end(),
                        [&](const SeenEvent& seen) { return seen.kind() == kind; }) != events.end();
  };
  if (fault_.expectation().survivors && static_cast<int>(draw_.ranks.size()) < command_.num_ranks) {
    const bool back = job.wait([&] { return has_event("recovered") || job.has_recovered(); }, until_ns);
    seen_.survivors_kept_pids = back && job.survivors_run();
    if (!*seen_.survivors_kept_pids) watch.take();
    // They may have ended by then, where nothing was left to do: each that was started again is an event, with a cause if it
    // had ended well.
    if (!*seen_.survivors_kept_pids && watch.best_step() >= undisturbed_.last_step())
      seen_.survivors_kept_pids =
          std::none_of(watch.events().begin(), watch.events().end(), [&](const SeenEvent& seen) {
            return seen.kind() == "restart" && seen.event.value("cause", Json()).is_null() &&
                   std::find(draw_.ranks.begin(), draw_.ranks.end(), seen.event.value("rank", -1)) ==
                       draw_.ranks.end();
          });
  }
  end(job, until_ns);
  seen_.exit_code = job.exit_code();
  seen_.ending = job.ending();
  seen_.last_words = job.last_words();
  note_events(job);
  note_recovery(job);
}

// What the launcher has said since the strike.
void Trial::note_events(JobHandle& job) {
  seen_.detect_seconds = named_after(job, fault_.expectation());
  for (const SeenEvent& seen : job.watch().events())
    if (seen.at_ns >= job.struck()->first_ns && (seen.kind() == "failure" || seen.kind() == "restart"))
      seen_.alarms.push_back(fmt::format("{} of rank {}: {}", seen.kind(),
                                         seen.event.value("rank", Json()).dump(),
                                         text_in(seen.event, "cause")));
}

void Trial::note_recovery(JobHandle& job) {
  const SeenStep* recovery = job.recovery_step();
  if (recovery == nullptr) return;
  seen_.recover_seconds =
      seconds_of(recovery->at_ns - job.struck()->first_ns) - undisturbed_.median_step_seconds();
  // A line may have been written and cut between two looks.
  std::vector<SeenStep> done = steps_in_file(join_path(command_.run_folder(), "metrics.abandoned.jsonl"));
  done.insert(done.end(), job.watch().steps().begin(), job.watch().steps().end());
  int64_t committed = 0;
  for (const SeenStep& step : done)
    if (step.generation < recovery->generation) committed = std::max(committed, step.step);
  seen_.lost_steps = std::max<int64_t>(committed - (recovery->step - 1), 0);
}

// The same command again.
void Trial::go_on() {
  const int64_t best_step = seen_.best_step;
  fault_.before_again(command_.run_folder(), draw_);
  if (is_control_) fault_.spoil(command_.run_folder());
  JobHandle job(command_);
  const size_t before = job.watch().steps().size();
  end(job, deadline_ns());
  seen_.second_exit_code = job.exit_code();
  if (job.exit_code() != 0) seen_.last_words = job.last_words();
  const auto& steps = job.watch().steps();
  seen_.best_step = job.watch().best_step();
  if (steps.size() > before) seen_.lost_steps = std::max<int64_t>(best_step - (steps[before].step - 1), 0);
}

void Trial::compare() {
  try {
    seen_.differences = differences(evidence_of(command_), undisturbed_.evidence);
  } catch (const Failure& error) {
    seen_.differences = {error.what()};
  }
  seen_.compared = true;
}

TrialResult Trial::run() {
  const Undisturbed::Place place = undisturbed_.place_of(draw_.instant);
  TrialResult result{.trial = draw_.trial,
                     .fault = fault_.text().name,
                     .is_control = is_control_,
                     .num_ranks = command_.num_ranks,
                     .ranks = draw_.ranks,
                     .at_seconds = place.at_seconds};
  seen_.last_step = undisturbed_.last_step();
  {
    JobHandle job(command_);
    strike(job, place);
    follow(job);
    seen_.best_step = job.watch().best_step();
  }
  check(seen_.best_step > 0, "chaos: {} of {}: the job {} before its first step: {}",
        is_control_ ? "the control" : "a trial", result.fault, seen_.ending, error_said_in(seen_.last_words));
  if (fault_.expectation().goes_on && seen_.exit_code == fault_.expectation().exit_code) go_on();
  if (seen_.second_exit_code.value_or(seen_.exit_code) == 0) compare();
  result.why = judge(seen_, fault_.expectation());
  result.seen = std::move(seen_);
  return result;
}

}  // namespace

RunEvidence evidence_of(const JobCommand& command) {
  const std::string folder = command.run_folder();
  return read_evidence(system_env(), folder, ledger_of(command.program, folder, command.environment));
}

double Undisturbed::training_seconds() const {
  return seconds_of(steps.back().at_ns - steps.front().at_ns);
}

double Undisturbed::median_step_seconds() const {
  std::vector<int64_t> times;
  for (size_t i = 1; i < steps.size(); ++i) times.push_back(steps[i].at_ns - steps[i - 1].at_ns);
  check(!times.empty(), "chaos: got a run of one step, expected at least two");
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return seconds_of(times[times.size() / 2]);
}

Undisturbed::Place Undisturbed::place_of(double instant) const {
  const auto at =
      static_cast<int64_t>(instant * static_cast<double>(steps.back().at_ns - steps.front().at_ns));
  const auto after = std::upper_bound(steps.begin(), steps.end(), steps.front().at_ns + at,
                                      [](int64_t ns, const SeenStep& step) { return ns < step.at_ns; });
  const SeenStep& last = *(after - 1);
  return {last.step, steps.front().at_ns + at - last.at_ns, seconds_of(at)};
}

Undisturbed run_undisturbed(const JobCommand& command) {
  Undisturbed undisturbed;
  const int64_t start_ns = now_ns();
  JobHandle job(command);
  job.wait_for_end(kNever);
  undisturbed.seconds = seconds_of(now_ns() - start_ns);
  if (job.exit_code() == 2)
    throw ConfigError("chaos: the undisturbed run: " + error_said_in(job.last_words()));
  check(job.exit_code() == 0, "chaos: the undisturbed run {}: {}", job.ending(),
        error_said_in(job.last_words()));
  const std::vector<std::string> left = job.leftovers();
  check(left.empty(), "chaos: the undisturbed run left behind: {}", left.empty() ? "" : left.front());
  undisturbed.steps = job.watch().steps();
  undisturbed.evidence = evidence_of(command);
  check(undisturbed.steps.size() >= 3, "chaos: got a run of {} steps, expected at least 3",
        undisturbed.steps.size());
  return undisturbed;
}

std::optional<double> named_after(const JobHandle& job, const Expectation& expected) {
  const std::string kind = expected.named_by, as = expected.named_as;
  for (const SeenEvent& seen : job.watch().events()) {
    const bool names = kind.empty() ? seen.kind() == "failure" || seen.kind() == "stop" : seen.kind() == kind;
    if (names && seen.at_ns >= job.struck()->first_ns &&
        text_in(seen.event, "cause").find(as) != std::string::npos)
      return seconds_of(seen.at_ns - job.struck()->first_ns);
  }
  return std::nullopt;
}

TrialResult run_trial(const JobCommand& command, const Undisturbed& undisturbed, const Fault& fault,
                      const Draw& draw, bool is_control) {
  return Trial(command, undisturbed, fault, draw, is_control).run();
}

}  // namespace athanor::chaos
