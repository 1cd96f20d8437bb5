#include "athanor/chaos/soak.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"

namespace athanor::chaos {
namespace {

// A job that does no step for so long and a hundred steps is given up.
constexpr double kIdleSeconds = 60.0;

class Soak {
 public:
  Soak(const CampaignOptions& options, int64_t num_faults, const TellLine& tell)
      : options_(options), num_faults_(num_faults), tell_(tell) {
    for (const Fault* fault : options.faults)
      if (!fault->expectation().goes_on) faults_.push_back(fault);
    if (faults_.empty()) throw ConfigError("chaos: --soak: got only kinds that end the job");
  }
  SoakResult run();

 private:
  JobCommand command(const char* name) const;
  bool strike(JobHandle& job, int64_t number);
  void follow(JobHandle& job, const Fault& fault, const Draw& draw);
  void conclude(JobHandle& job, const JobCommand& command);
  int64_t patience_ns() const {
    return static_cast<int64_t>((kIdleSeconds + 100.0 * undisturbed_.median_step_seconds()) * 1e9);
  }
  bool wait(JobHandle& job, const std::function<bool()>& done) {
    return job.wait(done, now_ns() + patience_ns());
  }

  const CampaignOptions& options_;
  int64_t num_faults_;
  const TellLine& tell_;
  std::vector<const Fault*> faults_;
  Undisturbed undisturbed_;
  SoakResult result_;
  std::map<std::string, int64_t> counts_;  // of faults, by kind
  size_t steps_when_struck_ = 1;           // that were seen when the last fault came
  std::vector<double> recover_;
};

JobCommand Soak::command(const char* name) const {
  JobCommand command = options_.job;
  command.name = name;
  command.takes_plans = true;
  for (const Fault* fault : faults_) {
    fault->prepare(command);
    command.set(fault->settings());
  }
  return command;
}

// False: the job has ended.
bool Soak::strike(JobHandle& job, int64_t number) {
  Dice dice(options_.seed, "chaos soak", number);
  const Draw draw = draw_trial(options_.seed, number, faults_, options_.job.num_ranks);
  const Fault& fault = *faults_[draw.fault];
  const size_t next = steps_when_struck_ + static_cast<size_t>(kMostStepsBetween - dice.below(2));
  if (!wait(job, [&] { return job.watch().steps().size() >= next; })) return false;
  job.wait([] { return false; },
           now_ns() + static_cast<int64_t>(draw.instant * undisturbed_.median_step_seconds() * 1e9));
  if (!job.runs()) return false;
  job.forget_strike();
  if (auto planned = fault.plan(draw)) job.ask(draw.ranks.front(), *planned);
  fault.inject(job, draw);
  steps_when_struck_ = job.struck()->num_steps;
  follow(job, fault, draw);
  return true;
}

// Until the job has got over it.
void Soak::follow(JobHandle& job, const Fault& fault, const Draw& draw) {
  const Expectation expected = fault.expectation();
  const JobHandle::Struck struck = *job.struck();
  std::optional<double> recover;
  std::optional<bool> kept;
  const bool is_over = wait(job, [&] {
    return expected.no_failure ? job.watch().steps().size() > struck.num_steps : job.has_recovered();
  });
  if (const SeenStep* step = job.recovery_step(); step != nullptr && !expected.no_failure)
    recover = static_cast<double>(step->at_ns - struck.first_ns) * 1e-9 - undisturbed_.median_step_seconds();
  if (expected.survivors && job.runs()) kept = job.survivors_run();
  const std::string name = fault.text().name;
  std::vector<std::string> wrong = job.notes();
  if (!is_over && job.runs()) wrong.push_back("no step was seen after it");
  if (kept == false) wrong.push_back("a rank that was not struck lost its process");
  std::string why;
  for (const std::string& one : wrong) {
    why += (why.empty() ? "" : "; ") + one;
    result_.why.push_back(fmt::format("fault {}, {}: {}", result_.num_faults, name, one));
  }
  if (recover) recover_.push_back(*recover);
  ++counts_[name];
  tell_({{"trial", result_.num_faults},
         {"seed", options_.seed},
         {"fault", name},
         {"soak", true},
         {"rank", draw.ranks.size() == 1 ? Json(draw.ranks.front())
                  : draw.ranks.empty()   ? Json()
                                         : Json(draw.ranks)},
         {"at_step", struck.step},
         {"survivors_kept_pids", or_null(kept)},
         {"detect_seconds", or_null(named_after(job, expected))},
         {"recover_seconds", or_null(recover)},
         {"passed", wrong.empty()},
         {"why", why}},
        fmt::format("fault {}: {} at step {}: {}", result_.num_faults, name, struck.step,
                    !wrong.empty() ? "FAILED: " + why
                    : recover      ? fmt::format("recovered in {:.3f} s", *recover)
                                   : "goes on"));
  ++result_.num_faults;
}

void Soak::conclude(JobHandle& job, const JobCommand& command) {
  if (!job.wait_for_end(now_ns() + patience_ns() + static_cast<int64_t>(10.0 * undisturbed_.seconds * 1e9))) {
    result_.why.push_back("the job did not end");
    job.end_now();
  }
  for (const std::string& left : job.leftovers()) result_.why.push_back("left behind: " + left);
  if (result_.num_faults < num_faults_)
    result_.why.push_back(
        fmt::format("{} faults of {} had been done when the job ended", result_.num_faults, num_faults_));
  if (job.exit_code() != 0) {
    result_.why.push_back(fmt::format("the job {} ({})", job.ending(), error_said_in(job.last_words())));
    return;
  }
  try {
    for (const std::string& difference : differences(evidence_of(command), undisturbed_.evidence))
      result_.why.push_back(difference);
  } catch (const Failure& error) {
    result_.why.push_back(error.what());
  }
  const auto& steps = job.watch().steps();
  result_.seconds = static_cast<double>(steps.back().at_ns - steps.front().at_ns) * 1e-9;
  std::vector<double> between;
  for (size_t i = 1; i < steps.size(); ++i)
    between.push_back(static_cast<double>(steps[i].at_ns - steps[i - 1].at_ns) * 1e-9);
  result_.step_seconds = std::min(undisturbed_.median_step_seconds(), quantile(between, 0.5));
  result_.goodput =
      static_cast<double>(undisturbed_.last_step() - 1) * result_.step_seconds / result_.seconds;
}

SoakResult Soak::run() {
  JobCommand undisturbed = options_.job;
  undisturbed.name = "undisturbed";
  undisturbed_ = run_undisturbed(undisturbed);
  if (!options_.keep) system_env().remove_all(undisturbed.run_folder());
  Json header = header_line(options_, undisturbed_);
  header["soak"] = num_faults_;
  tell_(header,
        fmt::format("undisturbed: {} steps in {:.2f} s, {:.1f} ms in the median", undisturbed_.last_step(),
                    undisturbed_.training_seconds(), undisturbed_.median_step_seconds() * 1e3));
  const JobCommand command = this->command("soak");
  {
    JobHandle job(command);
    wait(job, [&] { return job.watch().best_step() >= 1; });
    for (int64_t number = 0; number < num_faults_ && strike(job, number); ++number) {
    }
    conclude(job, command);
  }
  Json counts = Json::object();
  for (const auto& [name, count] : counts_) counts[name] = count;
  std::string why;
  for (const std::string& one : result_.why) why += (why.empty() ? "" : "; ") + one;
  const std::string formula = fmt::format("({} steps - 1) x {:.4f} s / {:.2f} s", undisturbed_.last_step(),
                                          result_.step_seconds, result_.seconds);
  tell_(
      {{"summary", counts},
       {"faults", result_.num_faults},
       {"steps", undisturbed_.last_step()},
       {"seconds", result_.seconds},
       {"median_step_seconds", result_.step_seconds},
       {"goodput", result_.goodput},
       {"formula", formula},
       {"recover_p50", recover_.empty() ? Json() : Json(quantile(recover_, 0.5))},
       {"recover_max", recover_.empty() ? Json() : Json(quantile(recover_, 1.0))},
       {"passed", result_.passed()},
       {"why", why}},
      fmt::format("soak: {} faults: {}goodput {:.1f} % = {}", result_.num_faults,
                  result_.passed() ? "passed; " : "FAILED: " + why + "; ", 100.0 * result_.goodput, formula));
  if (!result_.passed()) result_.kept = command.run_folder();
  return std::move(result_);
}

}  // namespace

SoakResult run_soak(const CampaignOptions& options, int64_t num_faults, const TellLine& tell) {
  check(num_faults >= 1, "chaos: a soak of {} faults", num_faults);
  return Soak(options, num_faults, tell).run();
}

}  // namespace athanor::chaos
