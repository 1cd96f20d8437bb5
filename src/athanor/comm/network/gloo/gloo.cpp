#include "athanor/comm/network/gloo/gloo.h"

#include "athanor/base/check.h"
#include "athanor/comm/network/gloo/gloo_transport.h"
#include "athanor/comm/network/network_world.h"

namespace athanor::comm::network::gloo {

std::unique_ptr<World> make_gloo_world(const GlooPlace& place, const GroupOptions& options) {
  check(place.size >= 1 && 0 <= place.rank && place.rank < place.size, "gloo: rank {} of {}", place.rank,
        place.size);
  check(1 <= place.port && place.port <= 65535, "gloo: port {}, expected 1 to 65535", place.port);
  return std::make_unique<WireWorld>(open_gloo_wire(place, options), options);
}

}  // namespace athanor::comm::network::gloo
