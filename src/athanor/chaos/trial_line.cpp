#include "athanor/chaos/trial_line.h"

#include <fmt/core.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/chaos/campaign.h"

namespace athanor::chaos {
namespace {

Json struck_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return Json();
  return ranks.size() == 1 ? Json(ranks.front()) : Json(ranks);
}

Json spread(const std::vector<double>& values) {
  if (values.empty()) return Json();
  return {{"count", values.size()},
          {"p50", quantile(values, 0.5)},
          {"p99", quantile(values, 0.99)},
          {"max", quantile(values, 1.0)}};
}

struct Tally {
  int64_t trials = 0, passed = 0, redid_a_step = 0;
  std::optional<bool> control_failed{};
  std::vector<double> detect{}, recover{};

  void add(const TrialResult& result) {
    if (result.is_control) {
      control_failed = !result.passed();
      return;
    }
    ++trials;
    passed += result.passed() ? 1 : 0;
    redid_a_step += result.seen.lost_steps.value_or(0) > 0 ? 1 : 0;
    if (result.seen.detect_seconds) detect.push_back(*result.seen.detect_seconds);
    if (result.seen.recover_seconds) recover.push_back(*result.seen.recover_seconds);
  }
};

}  // namespace

std::string hardware() {
  struct sysinfo system {};
  sysinfo(&system);
  utsname name{};
  uname(&name);
  const double bytes = static_cast<double>(system.totalram) * system.mem_unit;
  return fmt::format("{}, {} processors, {:.0f} GiB, {} {}", cpu_model(), num_usable_cpus(), bytes / 0x1p30,
                     name.sysname, name.release);
}

double quantile(std::vector<double> values, double share) {
  check(!values.empty(), "chaos: a quantile of nothing");
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

Json header_line(const CampaignOptions& options, const Undisturbed& undisturbed) {
  Json faults = Json::array();
  for (const Fault* fault : options.faults) faults.push_back(fault->text().name);
  return {{"campaign", "athanor chaos"},
          {"seed", options.seed},
          {"trials", options.trials},
          {"ranks", options.job.num_ranks},
          {"faults", faults},
          {"file", options.job.config},
          {"settings", options.job.settings},
          {"hardware", hardware()},
          {"steps", undisturbed.last_step()},
          {"training_seconds", undisturbed.training_seconds()},
          {"median_step_seconds", undisturbed.median_step_seconds()}};
}

Json trial_line(const TrialResult& result, uint64_t seed) {
  const Seen& seen = result.seen;
  std::string why;
  for (const std::string& one : result.why) why += (why.empty() ? "" : "; ") + one;
  return {{"trial", result.trial},
          {"seed", seed},
          {"fault", result.fault},
          {"control", result.is_control},
          {"ranks", result.num_ranks},
          {"rank", struck_ranks(result.ranks)},
          {"at_seconds", result.at_seconds},
          {"at_step", seen.at_step},
          {"exit_code", seen.exit_code},
          {"bitwise", result.bitwise()},
          {"lost_steps", or_null(seen.lost_steps)},
          {"survivors_kept_pids", or_null(seen.survivors_kept_pids)},
          {"detect_seconds", or_null(seen.detect_seconds)},
          {"recover_seconds", or_null(seen.recover_seconds)},
          {"leftovers", seen.leftovers},
          {"passed", result.passed()},
          {"why", why}};
}

Json summary_line(const std::vector<TrialResult>& results) {
  std::vector<std::string> order;
  std::map<std::string, Tally> tallies;
  for (const TrialResult& result : results) {
    if (!tallies.contains(result.fault)) order.push_back(result.fault);
    tallies[result.fault].add(result);
  }
  Json rows = Json::array();
  for (const std::string& fault : order) {
    const Tally& tally = tallies.at(fault);
    rows.push_back({{"fault", fault},
                    {"trials", tally.trials},
                    {"passed", tally.passed},
                    {"redid_a_step", tally.redid_a_step},
                    {"control_failed", or_null(tally.control_failed)},
                    {"detect_seconds", spread(tally.detect)},
                    {"recover_seconds", spread(tally.recover)}});
  }
  const bool passed = std::all_of(results.begin(), results.end(), [](const TrialResult& result) {
    return result.passed() != result.is_control;
  });
  return {{"summary", rows}, {"passed", passed}};
}

}  // namespace athanor::chaos
