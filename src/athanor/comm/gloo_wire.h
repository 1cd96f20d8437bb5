// The wire between hosts: Gloo's TCP pairs, one between any two ranks, and a side channel for the news.
//
// Gloo's own waits end with the data, an error of that pair or a timeout that closes all pairs, and a rank that
// waits for a living one never hears that a third has died. So waits are cut into slices from outside, by a thread
// that aborts them every 50 ms, and deaths and failures travel on the side channel (comm/side_channel.h).
// Thread rule: Wire's.
#pragma once

#include <memory>

#include "athanor/comm/gloo.h"
#include "athanor/comm/wire.h"

namespace athanor {

std::shared_ptr<Wire> open_gloo_wire(const GlooPlace& place, const GroupOptions& options);

}  // namespace athanor
