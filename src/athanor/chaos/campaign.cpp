#include "athanor/chaos/campaign.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::chaos {
namespace {

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const TellLine& tell) : options_(options), tell_(tell) {}

  CampaignResult run() {
    JobCommand command = options_.job;
    command.name = "undisturbed";
    undisturbed_ = run_undisturbed(command);
    if (!options_.keep) system_env().remove_all(command.run_folder());
    tell_(header_line(options_, undisturbed_),
          fmt::format("undisturbed: {} steps in {:.2f} s, {:.1f} ms in the median", undisturbed_.last_step(),
                      undisturbed_.training_seconds(), undisturbed_.median_step_seconds() * 1e3));
    for (size_t fault = 0; fault < options_.faults.size(); ++fault)
      try_one(draw_control(options_.seed, fault, options_.faults, options_.job.num_ranks), true);
    for (int64_t trial = 0; trial < options_.trials; ++trial)
      try_one(draw_trial(options_.seed, trial, options_.faults, options_.job.num_ranks), false);
    const Json summary = summary_line(result_.results);
    tell_(summary, summary_text(summary));
    return std::move(result_);
  }

 private:
  void try_one(const Draw& draw, bool is_control) {
    const Fault& fault = *options_.faults[draw.fault];
    JobCommand command = options_.job;
    command.name =
        is_control ? fmt::format("control_{}", fault.text().name) : fmt::format("trial_{}", draw.trial);
    TrialResult result = run_trial(command, undisturbed_, fault, draw, is_control);
    const bool as_it_must = result.passed() != is_control;
    if (!as_it_must) {
      // What is looked at afterwards.
      system_env().create_folders(command.run_folder());
      system_env().write_atomically(join_path(command.run_folder(), "launcher.errors"),
                                    result.seen.last_words);
      result_.kept.push_back(command.run_folder());
    } else if (!options_.keep && system_env().exists(command.run_folder())) {
      system_env().remove_all(command.run_folder());
    }
    tell_(trial_line(result, options_.seed), sentence_of(result));
    result_.results.push_back(std::move(result));
  }

  const CampaignOptions& options_;
  const TellLine& tell_;
  Undisturbed undisturbed_;
  CampaignResult result_;
};

}  // namespace

bool CampaignResult::passed() const {
  return std::all_of(results.begin(), results.end(),
                     [](const TrialResult& result) { return result.passed() != result.is_control; });
}

CampaignResult run_campaign(const CampaignOptions& options, const TellLine& tell) {
  check(!options.faults.empty(), "chaos: no kinds of faults");
  return Campaign(options, tell).run();
}

}  // namespace athanor::chaos
