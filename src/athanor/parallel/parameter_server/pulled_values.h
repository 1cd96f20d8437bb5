// Values of a worker of parameter servers: of every bucket one row comes from each server. Stands behind
// Param::value().
//
//   PulledValues values(buckets, world, arena, settings, clock);   // before the parameters are allocated
//   values.pull();                                                 // all is on its way, in the order of the forward pass
//   ... param.value() ...                                          // waits for its bucket, where it has not come
//
// pull() follows every header of an answer that is expected. It waits for what is still on its way.
#pragma once

#include <unordered_map>
#include <vector>

#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor {

class PulledValues final : public ValueSource {
 public:
  PulledValues(const Buckets& buckets, Group& world, Arena& arena, const ServerSettings& settings,
               WaitClock& clock);

  void need(const Param& param) override;
  void changed(const Param&) override {}  // the servers' values are what counts
  void pull();
  void settle();  // waits for all of it

 private:
  struct Pull {
    size_t bucket;
    Tensor whole;  // T [servers * count]
    std::vector<Work> works;
  };
  void wait(Pull& pull);

  const Buckets& buckets_;
  Group& world_;
  Arena& arena_;
  ServerRoles roles_;
  WaitClock& clock_;
  std::vector<Pull> pulls_;  // in the order of the forward pass
  std::unordered_map<const Param*, size_t> pull_of_;
};

}  // namespace athanor
