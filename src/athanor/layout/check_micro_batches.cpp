// dp: every rank of it has at least one micro-batch of a step.
#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/layout/check.h"

namespace athanor::layout {

void check_micro_batches(const Config& config, const Request& request) {
  const TrainConfig& t = config.train;
  const int64_t micro_batches = micro_batches_of_step(t), of_model = request.training_ranks / request.dp;
  if (request.dp <= micro_batches) return;
  throw ConfigError(
      fmt::format("parallel.dp: got {} ranks for the {} micro-batches of a step "
                  "(train.global_batch_size {} / train.micro_batch_size {}), expected at most {}",
                  request.dp, micro_batches, t.global_batch_size, t.micro_batch_size, micro_batches),
      fmt::format("start at most {} ranks, lower train.micro_batch_size or raise train.global_batch_size",
                  micro_batches * of_model + config.parameter_server.servers));
}

}  // namespace athanor::layout
