#include "athanor/run/tuning/standing.h"

#include <charconv>

namespace athanor::run::tuning {
namespace {

bool is_tuned(const std::string& key) {
  return key == kMicroBatchKey || key == kThreadsKey;
}

void add(std::set<int64_t>& values, const std::string& text) {
  int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) values.insert(value);
}

}  // namespace

Standing standing_of(const std::vector<Decision>& decisions, int64_t first_step) {
  Standing standing;
  for (const Decision& decision : decisions) {
    const auto* set = std::get_if<SetSetting>(&decision.what);
    if (set == nullptr || decision.step < first_step || !is_tuned(set->key)) continue;
    const bool is_of_open = standing.open && standing.open->key == set->key;
    if (!decision.why.starts_with(kTuning)) {
      standing.of_operator.insert(set->key);
      if (is_of_open) standing.open.reset();
      continue;
    }
    add(standing.tried[set->key], set->value);
    add(standing.tried[set->key], set->was);
    const bool is_kept = set->value == set->was;
    const bool is_undone = is_of_open && set->value == standing.open->was && set->was == standing.open->value;
    if (is_kept || is_undone) {
      standing.open.reset();
    } else {
      standing.open = *set;
      ++standing.num_tries;
    }
  }
  return standing;
}

Decision judgement(const SetSetting& open, bool keeps, int64_t step, const std::string& why) {
  return {step, SetSetting{open.key, keeps ? open.value : open.was, open.value}, std::string(kTuning) + why};
}

}  // namespace athanor::run::tuning
