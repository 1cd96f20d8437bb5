#include "athanor/engine/parameter_servers.h"

#include <fmt/format.h>

#include "athanor/engine/compression_state.h"
#include "athanor/engine/micro_batch.h"

namespace athanor::engine {

ServerSettings server_settings(const Config& config, const Layout& layout, int64_t num_channels) {
  const ParallelConfig& p = config.parallel;
  const int64_t micro_batches = micro_batches_of_step(config.train);
  return {.roles = {.workers = layout.training_ranks(), .servers = layout.servers},
          .parts = layout.cp,
          .consistency = config.parameter_server.consistency == "sync"      ? Consistency::sync
                         : config.parameter_server.consistency == "bounded" ? Consistency::bounded
                                                                            : Consistency::async,
          .staleness = config.parameter_server.staleness,
          .reduce = layout.tree ? Reduce::tree : Reduce::fast,
          .dtype = parse_dtype(config.precision.compute),
          .bucket_bytes = p.bucket_bytes,
          .num_micro_batches = micro_batches,
          .num_losses = static_cast<int64_t>(MicroBatchLosses::count(micro_batches, num_channels)),
          .balance_every = layout.shares == Shares::by_speed ? p.load_balance_every : 0,
          .compression = compression_of(config)};
}

bool is_commit(const Config& config, int64_t step) {
  const auto due = [step](int64_t every) { return every > 0 && step % every == 0; };
  return due(config.checkpoint.every_steps) || due(config.train.eval_every) || step >= config.train.steps;
}

std::string schedule_file(const std::string& folder, int server) {
  return join_path(folder, fmt::format("server{}.csv", server));
}

}  // namespace athanor::engine
