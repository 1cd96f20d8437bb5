// The Gloo transport: ranks as processes (or threads) of several hosts, over TCP.
//
//   GlooPlace place{.address = "10.0.0.1", .port = 29500, .rank = r, .size = n};
//   const std::unique_ptr<World> world = make_gloo_world(place);      // when all n have joined
//   world->all().all_reduce(...);
//
// Rank 0 listens on `port` for the control channel (comm/network/control_channel.h), by which the ranks find each other
// and learn of deaths. Data use one TCP connection between any two ranks, at ports that the system picks. All other
// ranks name a rank that dies, usually within milliseconds, within 5 s if its host is cut off.
// Errors of make_gloo_world: Timeout naming the ranks that have not joined, Error if the ranks do not agree on their
// world, IoError if the port is in use. Thread rule: World's.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::network::gloo {

struct GlooPlace {
  std::string address;  // of rank 0's host: a host name or an IP address
  int port = 29500;
  int rank = 0, size = 1;
  int listen_fd = -1;  // rank 0: a descriptor that listens on the port, which the world then owns; -1: none
};

std::unique_ptr<World> make_gloo_world(const GlooPlace& place, const GroupOptions& options = {});

}  // namespace athanor::comm::network::gloo
