#include "athanor/comm/gloo.h"

#include "athanor/base/check.h"
#include "athanor/comm/gloo_wire.h"
#include "athanor/comm/wire_world.h"

namespace athanor {

std::unique_ptr<World> make_gloo_world(const GlooPlace& place, const GroupOptions& options) {
  check(place.size >= 1 && 0 <= place.rank && place.rank < place.size, "gloo: rank {} of {}", place.rank,
        place.size);
  check(1 <= place.port && place.port <= 65535, "gloo: port {}, expected 1 to 65535", place.port);
  return std::make_unique<WireWorld>(open_gloo_wire(place, options), options);
}

}  // namespace athanor
