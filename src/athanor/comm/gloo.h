// Ranks as processes (or threads) of several hosts, over TCP by Gloo.
//
//   GlooPlace place{.address = "10.0.0.1", .port = 29500, .rank = r, .size = n};
//   const std::unique_ptr<World> world = make_gloo_world(place);      // when all n have joined
//   world->all().all_reduce(...);
//
// Rank 0 listens on `port` for the side channel (comm/side_channel.h), over which the ranks find each other and hear
// of deaths; data goes over one TCP connection between any two ranks, at ports that the system picks. A rank that
// dies is named by all others as a rule within milliseconds, one whose host is cut off within 5 s.
// Errors of make_gloo_world: Timeout naming who has not joined, Error where the ranks do not agree on their world,
// IoError where the port is in use. Thread rule: World's.
#pragma once

#include <memory>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor {

struct GlooPlace {
  std::string address;  // of rank 0's host: a name or numbers
  int port = 29500;
  int rank = 0, size = 1;
  int listen_fd = -1;  // rank 0: a descriptor that listens on the port, to be closed by the world; -1: none
};

std::unique_ptr<World> make_gloo_world(const GlooPlace& place, const GroupOptions& options = {});

}  // namespace athanor
