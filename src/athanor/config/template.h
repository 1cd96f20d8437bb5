// A config written out of nothing: every setting with what it does, its unit and its default, made from the list of
// settings (fields.h), so that it is never out of date.
//
//   env.write_atomically("run.toml", config_template("llama-tiny"));
//
// The lines that a first run wants are there to be edited; all others are comments that say the default. It trains as it
// stands once the paths of its data exist. Thread rule: pure functions. Errors: ConfigError for an unknown preset.
#pragma once

#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::config {

std::string config_template(const std::string& preset);

}  // namespace athanor::config
