// The lines of a campaign as JSON, one object each: a header, a line a trial, a summary.
//
//   {"campaign":"athanor chaos","seed":7,"trials":40,"ranks":2,"faults":["kill"],"file":"small.toml","settings":[...],
//    "hardware":"...","steps":200,"training_seconds":3.1,"median_step_seconds":0.012}
//   {"trial":0,"seed":7,"fault":"kill","control":false,"ranks":2,"rank":1,"at_seconds":1.25,"at_step":81,"exit_code":0,
//    "bitwise":true,"lost_steps":0,"survivors_kept_pids":true,"detect_seconds":0.002,"recover_seconds":0.21,"leftovers":[],
//    "passed":true,"why":""}
//   {"summary":[{"fault":"kill","trials":40,"passed":40,"redid_a_step":1,"control_failed":true,"detect_seconds":{"count":40,"p50":...,
//    "p99":...,"max":...},"recover_seconds":{...}}],"passed":true}
//
// `rank` is a number, a list where several ranks were struck, null where none in particular; null stands for what was not
// seen. A line of a negative control has "control":true, and has to have "passed":false. Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "athanor/chaos/trial.h"

namespace athanor::chaos {

struct CampaignOptions;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json header_line(const CampaignOptions& options, const Undisturbed& undisturbed);
Json trial_line(const TrialResult& result, uint64_t seed);
Json summary_line(const std::vector<TrialResult>& results);

// By nearest rank: the smallest of the values that `share` of them do not exceed.
double quantile(std::vector<double> values, double share);
std::string hardware();  // "AMD EPYC ..., 2 processors, 24 GiB, Linux 6.1"

}  // namespace athanor::chaos
