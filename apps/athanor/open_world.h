// Connects this process to the other ranks, over the transport that its environment and its config name.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"
#include "athanor/launch/environment/environment.h"

namespace athanor::apps {

// Waits for the other ranks if they are on several hosts. ConfigError if the environment lacks what the transport
// needs.
std::unique_ptr<World> open_world(const RankEnvironment& place, const std::string& transport,
                                  const GroupOptions& options);

}  // namespace athanor::apps
