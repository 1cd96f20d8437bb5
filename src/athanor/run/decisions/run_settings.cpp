// Of a Run: the settings that decisions change while it lives.
#include <algorithm>
#include <variant>

#include "athanor/base/cpu.h"
#include "athanor/run/decisions/set_settings.h"
#include "athanor/run/run.h"

namespace athanor::run {

void Run::follow_settings() {
  const int64_t step = state.step + 1;
  config = settings_at(said, decisions, step);
  for (RunPhase& phase : phases) phase.config = settings_at(phase.said, decisions, step);
  saves.set_every(config.checkpoint.every_steps);
  guards.set(config.guard);
  use_threads();
}

void Run::forget_decided_settings() {
  config = said;
  for (RunPhase& phase : phases) phase.config = phase.said;
}

// A decision may come from a machine with more processors.
void Run::use_threads() {
  Config here = config;
  here.train.threads = std::min<int64_t>(here.train.threads, max_threads());
  const int number = threads_of_rank(here, io.ranks_of_processors);
  if (number == threads) return;
  const bool binds = bound.has_value();
  bound.reset();
  threads = number;
  io.placement = io.place ? io.place(threads) : Placement{};
  pool.resize(threads);
  if (binds) bind_thread();
}

void Run::set_setting(const std::string& setting, const std::string& why) {
  const auto decision = set_decision(phase().config, setting, state.step + 1, why);
  if (!decision) return;
  decisions = with_decisions(decisions, {*decision});
  guards.decisions = decisions;
}

void Run::forget_settings_after(int64_t step) {
  if (!guards.decisions) return;
  std::erase_if(*guards.decisions, [&](const Decision& decision) {
    return decision.step > step && std::holds_alternative<SetSetting>(decision.what);
  });
}

}  // namespace athanor::run
