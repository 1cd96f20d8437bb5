// Parameters of a worker of parameter servers, pulled by bucket: one row of every bucket comes from each server. Stands
// behind Param::value().
//
//   PulledValues values(buckets, world, arena, settings, clock);   // before the parameters are allocated
//   values.pull();                                                 // starts to receive, in forward order
//   ... param.value() ...                                          // waits for its bucket
//
// Call pull() once after the receive of each answer header is started. It first waits for the previous pull.
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor::parallel::parameter_server {

class PulledValues final : public ValueSource {
 public:
  PulledValues(const Buckets& buckets, Group& world, Arena& arena, const ServerSettings& settings,
               WaitClock& clock);

  void need(const ParamStorage& param) override;
  void changed(const ParamStorage&) override {}  // nothing to do: the servers own the values
  void pull();
  void settle();  // waits for the whole pull

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
  std::unordered_map<const ParamStorage*, size_t> pull_of_;
};

}  // namespace athanor::parallel::parameter_server
