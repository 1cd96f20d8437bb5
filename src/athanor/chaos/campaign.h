// A campaign: one undisturbed run of a config, a negative control of each kind of fault, then the trials.
//
//   CampaignOptions options{.job = {...}, .seed = 7, .trials = 100, .faults = find_faults({}, 2)};
//   const CampaignResult result = run_campaign(options, tell);
//   result.passed();                                // all trials have, and no control has
//
// Every run has a folder of its own in job.runs, which must be there; a run that did as it must is removed. `tell` gets each
// line (trial_line.h) as it comes, and a sentence for people. Errors: those of trial.h. Thread rule: one thread, which the
// jobs die with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/chaos/trial.h"
#include "athanor/chaos/trial_line.h"

namespace athanor::chaos {

struct CampaignOptions {
  JobCommand job{};  // job.name is not used
  uint64_t seed = 1;
  int64_t trials = 1;
  std::vector<const Fault*> faults{};
  bool keep = false;  // the folders of all runs stay
};

struct CampaignResult {
  std::vector<TrialResult> results{};
  std::vector<std::string> kept{};  // folders of runs that did not do as they must
  bool passed() const;
};

using TellLine = std::function<void(const Json& line, const std::string& sentence)>;

CampaignResult run_campaign(const CampaignOptions& options, const TellLine& tell);

// For people: a line a kind of fault, from a summary_line().
std::string summary_text(const Json& summary);
std::string sentence_of(const TrialResult& result);

}  // namespace athanor::chaos
