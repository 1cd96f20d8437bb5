#include "athanor/layout/check.h"

namespace athanor::layout {

void check(const Config& config, const Request& request) {
  constexpr Rule kRules[] = {check_servers,  check_world,   check_shard,    check_micro_batches,
                             check_pipeline, check_experts, check_local_sgd};
  for (const Rule rule : kRules) rule(config, request);
}

}  // namespace athanor::layout
