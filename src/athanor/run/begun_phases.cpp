#include "athanor/run/begun_phases.h"

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/config/load.h"

namespace athanor::run {

std::vector<BegunPhase> begun_phases(Env& env, const std::string& folder, const TrainReport& report,
                                     int64_t first_step) {
  std::vector<std::string> names;  // in their order
  try {
    const std::string path = join_path(folder, "config.resolved.toml");
    for (const Phase& phase : parse_config(env.read_text(path), path).phases) names.push_back(phase.name);
  } catch (const Failure&) {  // only a picture lacks something
    return {};
  }
  std::vector<BegunPhase> begun;
  int64_t next_step = first_step;
  auto next = names.begin();
  for (const PhaseLosses& done : report.phases) {
    begun.push_back({done.name, next_step});
    next_step = done.last_step + 1;
    next = std::find(names.begin(), names.end(), done.name);
    if (next != names.end()) ++next;
  }
  // A run that begins later has one phase (train --phase), whose name is known when it is done.
  if (next != names.end() && first_step == 1) begun.push_back({*next, next_step});
  return begun;
}

}  // namespace athanor::run
