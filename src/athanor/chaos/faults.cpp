#include "athanor/chaos/faults.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"

namespace athanor::chaos {

const std::vector<const Fault*>& all_faults() {
  static const std::vector<const Fault*> all = {
      &kill_fault(),           &kill_several_fault(),  &kill_all_fault(),     &kill_again_fault(),
      &kill_agent_fault(),     &kill_master_fault(),   &nan_gradient_fault(), &stop_term_fault(),
      &stop_fault(),           &pause_fault(),         &skip_fault(),         &delay_fault(),
      &reorder_fault(),        &mismatch_fault(),      &flip_slot_fault(),    &flip_checkpoint_fault(),
      &flip_parameter_fault(), &flip_gradient_fault(), &full_fault(),         &scale_fault(),
      &slow_fault(),           &kill_at_call_fault(),  &memory_fault(),       &descriptors_fault(),
      &clock_fault(),          &disk_error_fault(),    &disk_short_fault(),   &disk_hang_fault(),
      &stop_master_fault(),    &stop_agent_fault(),    &kill_launcher_fault()};
  return all;
}

std::vector<const Fault*> find_faults(const std::vector<std::string>& names, int num_ranks) {
  std::vector<const Fault*> found;
  if (names.empty()) {
    std::copy_if(all_faults().begin(), all_faults().end(), std::back_inserter(found),
                 [&](const Fault* fault) {
                   return fault->least_ranks() <= num_ranks && fault->unavailable().empty();
                 });
    return found;
  }
  std::vector<std::string> known;
  for (const Fault* fault : all_faults()) known.emplace_back(fault->text().name);
  for (const std::string& name : names) {
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end())
      throw ConfigError(
          fmt::format("chaos: --faults: got '{}', expected one of the kinds of faults; did you mean '{}'?",
                      name, nearest_name(name, known)));
    const Fault* fault = all_faults()[static_cast<size_t>(at - known.begin())];
    if (fault->least_ranks() > num_ranks)
      throw ConfigError(fmt::format("chaos: --faults: {} needs -n {} or more, got -n {}", name,
                                    fault->least_ranks(), num_ranks));
    if (const std::string why = fault->unavailable(); !why.empty())
      throw ConfigError(fmt::format("chaos: --faults: {} {}", name, why));
    if (std::find(found.begin(), found.end(), fault) == found.end()) found.push_back(fault);
  }
  return found;
}

}  // namespace athanor::chaos
