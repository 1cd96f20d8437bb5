// The Gloo network transport: a TCP pair between any two ranks for data, and a control channel for news.
//
// Gloo's own waits end with the data, with an error of that pair, or with a timeout that closes all pairs; a rank that
// waits for a living rank never learns that a third has died. So a thread aborts all waits every 50 ms, which makes
// slices of them, and deaths and failures travel on the control channel (comm/network/control_channel.h).
// Thread rule: Wire's.
#pragma once

#include <memory>

#include "athanor/comm/network/gloo/gloo.h"
#include "athanor/comm/network/transport.h"

namespace athanor::comm::network::gloo {

std::shared_ptr<Wire> open_gloo_wire(const GlooPlace& place, const GroupOptions& options);

}  // namespace athanor::comm::network::gloo
