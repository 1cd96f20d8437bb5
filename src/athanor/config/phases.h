// The phases of a run, one after the other, each with the whole of its settings.
//
//   for (const PhaseConfig& phase : phases_of(config))
//     train(phase.config, phase.name, phase.first_step, phase.last_step);   // steps of the run, both included
//
// The settings of a phase are those of the run, with its own keys in their place: what an earlier phase has set is no part
// of it. The learning-rate schedule is the exception, because it starts anew only in a phase that names one, by any key of
// [schedule] or optimizer.lr: until the next such phase it goes on, with the settings of the phase that it began in. So
// phase.config.schedule says where it began (first_step) and over how many steps it runs (steps).
//
// A run without [[phase]] is one phase with no name. A phase of a valid config is a valid config (validate.h); the
// vocabulary must be known first where its settings are to be complete (presets.h).
//
// config.origins has "phase.1.data.seq_len" for a key of the second phase; in the phase's own config it is
// "data.seq_len". Errors: Error for a key that no table has. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::config {

struct PhaseConfig {
  std::string name;
  int64_t first_step = 1, last_step = 0;  // of the run, from 1, both included
  Config config;                          // without phases of its own; train.steps is the run's
};

std::vector<PhaseConfig> phases_of(const Config& config);

// The model as a checkpoint of this step has it: a phase may have set its rotations or its pattern of attention. Before the
// first step it is that of the first phase.
ModelConfig model_at(const Config& config, int64_t step);

// Whether a phase may set the key: "data.seq_len" yes, "model.hidden_size" no.
bool phase_may_set(std::string_view key);

// All that it may set, in words: "data.* (not data.tokenizer, ...), ...".
std::string phase_settings_text();

// "phase 'long context'"; where it has no name yet, "phase 2 of 3".
std::string phase_label(const Config& config, size_t index);

// Where Config::origins has the origin of a phase's key: "phase.1.data.seq_len".
std::string phase_origin(size_t index, std::string_view key);

}  // namespace athanor::config
