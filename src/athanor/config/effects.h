// Settings that do nothing beside the others: whoever writes one down relies on it, so it is refused.
//
//   check_effects(config);   // load_config() does, for what a user wrote; a checkpoint's own settings are not asked
//
// A setting is refused where the user set it (a file, an override), to another value than the program's or the preset's
// own, and nothing in this config reads it. The list is a table: one line per setting, with what would make it act.
// A line of the file that an override alone has switched off (--set optimizer.name=sgd beside betas) is warned of.
// A setting of the run has to act in one of its phases at least, one of a phase in that phase.
// What depends on the number of ranks (parallel.zero_stage on one rank) acts: one config serves any number of them.
//
// Errors: ConfigError as "t.toml:9: optimizer.momentum: got 0.5, which has no effect without optimizer.name = "sgd"".
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::config {

// `file_alone` reads the config without its overrides: what the file says to good effect and an override has switched off is
// no mistake but a trial. It is told in the result, a sentence each.
std::vector<std::string> check_effects(const Config& config, const std::function<Config()>& file_alone = {});

// Whether the setting is read and checked, but used by nothing yet: any value but its default is refused.
bool is_absent(std::string_view key);

// Whether any text is kept to measure the validation loss on.
bool has_validation(const Config& config);

}  // namespace athanor::config
