// A soak: one run of the job that is struck again and again, every five or six steps, by faults of all chosen kinds.
//
//   const SoakResult result = run_soak({.job = {...}, .seed = 7, .faults = find_faults({}, 3)}, /*num_faults=*/500, tell);
//   result.passed();                                // the bits of the undisturbed run, and nothing is left
//
// Each fault comes five or six steps after the one before, and at the earliest when the job has recovered from that, at a
// drawn instant of a step. Kinds that end the job (stop-term, flip-checkpoint) are left out. Before it the same job runs undisturbed. A fault is
// a line (trial_line.h); the last one is the summary, with the goodput:
//
//   goodput = (steps - 1) x median step / seconds from the end of the first step to that of the last
//
// The median step is that of the undisturbed run, or of the one that is struck where that is less: a machine that was slower
// during the undisturbed run makes the goodput no better.
//
// Errors: those of campaign.h. Thread rule: one thread, which the job dies with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/chaos/campaign.h"

namespace athanor::chaos {

constexpr int64_t kMostStepsBetween = 6;
// What a run has to have: so many steps a fault, and some for faults that the job gets over in more than six.
constexpr int64_t kStepsAFault = 6, kSpareSteps = 30;
// A hundred steps, after which the launcher's budget is whole again, have up to twenty faults; some take two restarts.
constexpr int64_t kLeastRestarts = 40;

struct SoakResult {
  int64_t num_faults = 0;  // that were done
  double goodput = 0.0, seconds = 0.0, step_seconds = 0.0;
  std::vector<std::string> why{};  // what did not hold
  std::string kept{};              // the folder of a run that failed
  bool passed() const { return why.empty(); }
};

SoakResult run_soak(const CampaignOptions& options, int64_t num_faults, const TellLine& tell);

}  // namespace athanor::chaos
