// What [offload] and optimizer.state cannot go together with (docs/offload.md): a part of validate().
//
// Errors: ConfigError, as validate.h. Thread rule: a pure function.
#pragma once

#include "athanor/config/config.h"

namespace athanor::config {

void validate_offload(const Config& config);

}  // namespace athanor::config
